"""Logs as Karapace writes them, in both of its forms of keys.

The bytes follow from Karapace's source (its ``key_format``, ``messaging`` and ``schema_registry``), not from
a run. Karapace writes a ``null`` subject for the top level, texts of schemas with sorted members, JSON in
ASCII only, no type for Avro, no ``md5``, and empty values instead of tombstones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from registry.domain.model import TOP, Reference, Subject
from registry.domain.queries.by_subject import version_numbers
from registry.domain.queries.scope import stored_config
from registry.domain.rows import layout
from registry.domain.rows.view import scan
from tests.unit.small_registry import SmallRegistry

CUSTOMER: Any = {
    "type": "record",
    "name": "Customer",
    "doc": "\u00fc",
    "fields": [{"name": "n", "type": "string"}],
}
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "Customer"}]}
POINT = {"type": "object", "properties": {"y": {"type": "number"}, "x": {"type": "number"}}}
PROTO = 'syntax = "proto3";\npackage p;\n\nmessage M {\n  int32 a = 1;\n}\n'
CANONICAL = ("keytype", "subject", "version", "magic")
DEPRECATED = ("subject", "version", "magic", "keytype")


def dumps(value: object, **how: Any) -> str:
    return json.dumps(value, separators=(",", ":"), **how)


def sorted_text(schema: object) -> str:
    """Return a schema's text as Karapace stores it."""
    return dumps(schema, sort_keys=True)


class Karapace:
    """Writes to a log as Karapace does; ``order`` is that of its keys' members."""

    def __init__(self, to: SmallRegistry, order: Iterable[str]) -> None:
        self._to, self._order = to, order

    def _send(self, value: dict[str, Any] | None, **key: Any) -> None:
        ordered = {name: key[name] for name in self._order if name in key}
        self._to.append(dumps(ordered).encode(), b"" if value is None else dumps(value).encode())

    def schema(self, subject: str, version: int, schema_id: int, text: str, **more: Any) -> None:
        deleted = more.pop("deleted", False)
        value = {"subject": subject, "version": version, "id": schema_id, "schema": text, "deleted": deleted}
        self._send(value | more, subject=subject, version=version, magic=1, keytype="SCHEMA")

    def delete_for_good(self, subject: str, version: int) -> None:
        self._send(None, subject=subject, version=version, magic=1, keytype="SCHEMA")

    def delete_subject(self, subject: str, upto: int) -> None:
        self._send({"subject": subject, "version": upto}, subject=subject, magic=0, keytype="DELETE_SUBJECT")

    def level(self, subject: str | None, level: str | None) -> None:
        value = None if level is None else {"compatibilityLevel": level}
        self._send(value, subject=subject, magic=0, keytype="CONFIG")


@pytest.fixture(params=[CANONICAL, DEPRECATED], ids=["canonical", "deprecated"])
def small(request: pytest.FixtureRequest) -> SmallRegistry:
    small = SmallRegistry()
    karapace = Karapace(small, request.param)
    karapace.level(None, "FULL")
    karapace.schema("k\u00fcnde", 1, 1, sorted_text(CUSTOMER))
    karapace.schema(
        "order", 1, 2, sorted_text(ORDER),
        references=[{"name": "Customer", "subject": "k\u00fcnde", "version": 1}],
    )  # fmt: skip
    karapace.schema("point", 1, 3, sorted_text(POINT), schemaType="JSON")
    karapace.schema("proto", 1, 4, PROTO, schemaType="PROTOBUF")
    karapace.level("point", "NONE")
    karapace.level("order", "NONE")
    karapace.level("order", None)
    karapace.schema("one", 1, 5, '"int"')
    karapace.schema("one", 2, 6, '"long"')
    karapace.schema("one", 1, 5, '"int"', deleted=True)
    karapace.schema("all", 1, 5, '"int"')
    karapace.schema("all", 2, 7, '"bytes"')
    karapace.delete_subject("all", 2)
    karapace.schema("never", 1, 8, '"float"')
    karapace.delete_subject("never", 1)
    karapace.delete_for_good("never", 1)
    return small


def numbers(small: SmallRegistry, subject: str, *, deleted: bool) -> list[int]:
    return list(version_numbers(small.view, Subject.parse(subject), deleted=deleted))


def test_nothing_of_karapace_s_is_quarantined(small: SmallRegistry) -> None:
    assert not list(scan(small.view, layout.QUARANTINE))


def test_what_karapace_deleted_is_deleted(small: SmallRegistry) -> None:
    assert (numbers(small, "one", deleted=False), numbers(small, "one", deleted=True)) == ([2], [1, 2])
    assert numbers(small, "all", deleted=True) == [1, 2]
    assert small.missing("all", '"int"') == 40401
    assert small.missing("never", '"float"', deleted=True) == 40401


def test_karapace_s_levels_hold(small: SmallRegistry) -> None:
    found = [stored_config(small.view, scope) for scope in (TOP, Subject(".", "point"))]
    assert [each and each.compatibility_level for each in found] == ["FULL", "NONE"]
    assert stored_config(small.view, Subject(".", "order")) is None


def test_clients_find_what_they_registered_at_karapace_whatever_the_order_of_its_members(
    small: SmallRegistry,
) -> None:
    by = {"references": [Reference("Customer", "k\u00fcnde", 1)]}
    for find in (small.lookup, small.register):
        assert find("k\u00fcnde", json.dumps(CUSTOMER))["id"] == 1
        assert find("order", json.dumps(ORDER), **by)["id"] == 2
        assert find("point", json.dumps(POINT), schema_type="JSON", normalize=True)["id"] == 3
        assert find("proto", PROTO, schema_type="PROTOBUF")["id"] == 4
    assert not small.last


def test_of_json_schemas_the_order_counts_unless_they_are_normalized(small: SmallRegistry) -> None:
    assert small.missing("point", json.dumps(POINT), schema_type="JSON") == 40403
    small.config("point", normalize=True)
    assert small.lookup("point", json.dumps(POINT), schema_type="JSON")["id"] == 3


def test_ids_and_versions_go_on_above_karapace_s(small: SmallRegistry) -> None:
    assert small.place("all", '"double"') == (8, 3)


def test_a_subject_that_karapace_deleted_for_good_begins_again_at_version_1(small: SmallRegistry) -> None:
    assert small.place("never", '"string"')[1] == 1
    assert numbers(small, "never", deleted=False) == [1]
