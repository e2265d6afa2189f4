"""Tombstones repeat the key bytes of other writers that spell keys differently."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from registry.domain.commands import DeleteContext
from registry.domain.log_format import values
from registry.domain.log_format.records import (
    ConfigKey,
    ContextKey,
    Key,
    ModeKey,
    SchemaKey,
    canonical_key,
    decode_key,
)
from registry.domain.model import TOP, Subject
from tests.unit.random_logs import fold
from tests.unit.small_registry import INT, STRING, SmallRegistry

S = Subject.parse("s")
IN_C = Subject.parse(":.c:s")


def other_order(key: Key) -> bytes:
    return orjson.dumps(dict(reversed(orjson.loads(canonical_key(key)).items())))


def older_magic(key: Key) -> bytes:
    return orjson.dumps(orjson.loads(canonical_key(key)) | {"magic": 0})


def canonical(raw: bytes | None) -> bytes:
    return canonical_key(decode_key(raw))


def version(number: int, subject: Subject = S, *, deleted: bool = True, schema: str = STRING) -> bytes:
    return values.schema_value(subject, number, number, schema, deleted=deleted)


@pytest.fixture
def foreign(small: SmallRegistry) -> SmallRegistry:
    """Return a subject with deleted versions, modes, configs and a context, written by another writer."""
    small.append(older_magic(SchemaKey(S, 1)), version(1))
    small.append(other_order(SchemaKey(S, 1)), version(1))
    small.append(older_magic(SchemaKey(S, 2)), version(2, schema=INT))
    for subject in (S, IN_C, Subject.parse(":.c:"), TOP):
        small.append(other_order(ConfigKey(subject)), b'{"compatibilityLevel":"NONE"}')
        small.append(other_order(ModeKey(subject)), b'{"mode":"READWRITE"}')
    small.append(other_order(ContextKey(".c")), b"{}")
    return small


def purge_first(registry: SmallRegistry) -> list[Key]:
    registry.delete("s", 1, permanent=True)
    return [SchemaKey(S, 1)]


def purge_all(registry: SmallRegistry) -> list[Key]:
    registry.delete("s", permanent=True)
    return [SchemaKey(S, 1), SchemaKey(S, 2), ConfigKey(S), ModeKey(S)]


def register_again(registry: SmallRegistry) -> list[Key]:
    assert registry.place("s", INT) == (2, 3)
    return [SchemaKey(S, 2)]


def drop_top_config(registry: SmallRegistry) -> list[Key]:
    registry.drop_config(None)
    return [ConfigKey(TOP)]


def drop_mode(registry: SmallRegistry) -> list[Key]:
    registry.drop_mode(":.c:", recursive=True)
    return [ModeKey(IN_C), ModeKey(Subject.parse(":.c:"))]


def unset_mode(registry: SmallRegistry) -> list[Key]:
    registry.mode("s", None)
    return [ModeKey(S)]


def begin_import(registry: SmallRegistry) -> list[Key]:
    registry.mode("s", "IMPORT")
    return [SchemaKey(S, 1), SchemaKey(S, 2)]


def delete_context(registry: SmallRegistry) -> list[Key]:
    registry.submit(DeleteContext(".c"))
    return [ContextKey(".c")]


Operation = Callable[[SmallRegistry], list[Key]]
OPERATIONS = [
    purge_first, purge_all, register_again, drop_top_config, drop_mode, unset_mode, begin_import,
    delete_context,
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: str(each.__name__))
def test_what_goes_for_good_leaves_no_record_under_any_bytes(
    foreign: SmallRegistry, operation: Operation
) -> None:
    gone = operation(foreign)
    last = {record.key: record for record in foreign.log}
    compacted = sorted(record for record in last.values() if record.value is not None)
    assert not {canonical(record.key) for record in compacted} & {canonical_key(key) for key in gone}
    assert dict(fold(compacted).rows()) == dict(foreign.view.rows())


def test_our_own_keys_need_one_tombstone_only(small: SmallRegistry) -> None:
    small.register("s")
    small.purge("s")
    assert small.last_keys == [("SCHEMA", "s", 1, False)]


def test_a_soft_delete_under_our_bytes_does_not_hide_the_older_ones(small: SmallRegistry) -> None:
    small.append(older_magic(SchemaKey(S, 1)), version(1, deleted=False))
    small.delete("s", 1)
    small.delete("s", 1, permanent=True)
    assert [(entry.key, entry.value) for entry in small.last] == [
        (older_magic(SchemaKey(S, 1)), None),
        (canonical_key(SchemaKey(S, 1)), None),
    ]
