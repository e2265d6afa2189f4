"""Sensitive metadata: encrypted in records and rows, in clear text for processes with the keys."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain import reseed
from registry.domain.commands import (
    Associate,
    AssociationRequest,
    Command,
    DeleteSubject,
    DeleteVersion,
    IdempotencyKey,
    PutConfig,
    Refused,
    Register,
    ResourceRequest,
    TagVersion,
)
from registry.domain.fold.fold import apply
from registry.domain.log_format.headers import unpack_header
from registry.domain.log_format.records import Entry, Record, schema_key
from registry.domain.log_format.values import read_schema, schema_value
from registry.domain.model import Metadata, Reference, Subject, identity, metadata
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import Defaults
from registry.domain.queries.sensitive_metadata import (
    Cipher,
    PlainView,
    encrypt_entries,
    has_encoded,
    plain_row,
)
from registry.domain.rows import layout, version_row
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import scan
from registry.encoder.keyset import Keyset
from registry.node.replication.dedup import DedupCache
from registry.node.write.batch import Decider, Planned
from tests.support.pending import pending

SECRET = "plain-and-secret"
META = Metadata(properties={"pw": SECRET, "owner": "bob"}, sensitive=["absent", "pw"])
STRING, INT = '"string"', '"int"'


class Registry:
    """A writer over rows in memory."""

    def __init__(self, cipher: Cipher | None, view: DictView | None = None) -> None:
        self.cipher = cipher
        self.rows = view or DictView()
        self.memory = DedupCache(0)
        self.decider = Decider(Defaults(), 20, self.memory, cipher=cipher)
        self.log: list[Record] = []
        self.headers: list[bytes] = []

    def submit(self, command: Command, idempotency_key: IdempotencyKey | None = None) -> bytes:
        given = [pending(command, key=idempotency_key)]
        base = len(self.log)
        batch = self.decider.decide(self.rows, given, base=base, now=1, bytes_max=1 << 20)
        for number, entry in enumerate(batch.entries):
            record = Record(base + number, 1, entry.key, entry.value)
            self.log.append(record)
            self.rows.commit(apply(self.rows, record))
        self.headers += batch.headers.values()
        plan = batch.plans[0]
        assert isinstance(plan, Planned), plan
        return plan.reply

    def refusal(self, command: Command) -> Refused:
        batch = self.decider.decide(
            self.rows, [pending(command)], base=len(self.log), now=1, bytes_max=1 << 20
        )
        plan = batch.plans[0]
        assert isinstance(plan, Refused), plan
        assert not batch.entries
        return plan

    def shown(self, cipher: Cipher | None = None) -> Iterator[Metadata | None]:
        """Yield the metadata of all versions as seen with the cipher's keys."""
        view = PlainView(self.rows, cipher or self.cipher or Keyset.new())
        for key, value in scan(view, layout.VERSION):
            assert key
            yield entities.metadata(version_row.VersionRow.unpack(value))

    def said(self) -> bytes:
        """Return all bytes of log, record headers and rows."""
        logged = [part or b"" for record in self.log for part in (record.key, record.value)]
        return b"\n".join((*logged, *self.headers, *(k + v for k, v in self.rows.rows())))


def value_of(record: Record) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(record.value or b"")
    return found


def test_the_record_is_that_of_the_released_server() -> None:
    registry = Registry(Keyset.new())
    meta = Metadata(
        tags={"a": ["PII"]}, properties={"pw": "x", "owner": "bob", "empty": ""},
        sensitive=["absent", "empty", "pw"],
    )  # fmt: skip
    registry.submit(Register("s1", STRING, metadata=meta))
    said = value_of(registry.log[-1])
    assert list(said) == ["subject", "version", "id", "md5", "schemaType", "metadata", "schema", "deleted"]
    assert said["md5"] == b64encode(identity(STRING, meta=meta)).decode()
    encoded = metadata(said["metadata"])
    assert (encoded.tags, encoded.sensitive) == (meta.tags, meta.sensitive)
    assert encoded.properties is not None
    assert list(encoded.properties) == ["__enc__", "empty", "owner", "pw"]
    assert (encoded.properties["__enc__"], encoded.properties["owner"]) == ("true", "bob")
    assert len(encoded.properties["empty"]) == 44


def test_a_list_that_names_no_property_is_encoded_too() -> None:
    registry = Registry(Keyset.new())
    meta = Metadata(properties={"owner": "bob"}, sensitive=["absent"])
    registry.submit(Register("s", STRING, metadata=meta))
    said = metadata(value_of(registry.log[-1])["metadata"])
    assert said.properties == {"__enc__": "true", "owner": "bob"}
    assert list(registry.shown()) == [meta]


def test_metadata_without_properties_is_not_encoded() -> None:
    registry = Registry(Keyset.new())
    registry.submit(Register("s", STRING, metadata=Metadata(sensitive=["pw"])))
    assert "md5" not in value_of(registry.log[-1])
    assert not has_encoded(registry.rows)


def test_each_record_is_encrypted_with_another_nonce() -> None:
    registry = Registry(Keyset.new())
    registry.submit(Register("s", STRING, metadata=META))
    first = value_of(registry.log[-1])
    registry.submit(DeleteVersion("s", 1))
    second = value_of(registry.log[-1])
    assert (first["md5"], second["deleted"]) == (second["md5"], True)
    assert first["metadata"] != second["metadata"]
    assert list(registry.shown()) == [META]


def test_nothing_is_in_clear_whatever_is_done() -> None:
    registry = Registry(Keyset.new())
    numbers = iter(range(100))

    def submit(command: Command) -> bytes:
        return registry.submit(command, IdempotencyKey(next(numbers).to_bytes(16, "big"), 0))

    submit(Register("s", STRING, metadata=META))
    submit(Register(":.c:s", STRING, metadata=META))
    submit(PutConfig("s", {"compatibilityLevel": "NONE"}))
    submit(Register("s", INT))
    submit(Register("s", STRING, metadata=META, references=[Reference("r", "s", 1)]))
    submit(TagVersion("s", 2, new_version=4))
    associated = AssociationRequest(
        association_type="value", schema=Register("", STRING, metadata=META), op="CREATE"
    )
    reply = submit(Associate(ResourceRequest("n", "ns", "id", "topic", [associated]), ".", create=True))
    assert SECRET.encode() in reply
    submit(DeleteSubject("s"))
    assert SECRET.encode() not in registry.said()
    shown = [meta for meta in registry.shown() if meta is not None and meta.properties is not None]
    assert len(shown) == len(list(registry.shown()))
    assert {meta.properties["pw"] for meta in shown if meta.properties} == {SECRET}


def test_the_note_of_an_association_holds_no_reply_in_clear() -> None:
    registry = Registry(Keyset.new())
    associated = AssociationRequest(
        association_type="value", schema=Register("", STRING, metadata=META), op="CREATE"
    )
    request = ResourceRequest("n", "ns", "id", "topic", [associated])
    registry.submit(Associate(request, ".", create=True), IdempotencyKey(b"t" * 16, 0))
    header = unpack_header(registry.headers[-1])
    assert header is not None
    assert header.brief is None


def test_who_lacks_the_key_sees_what_is_stored() -> None:
    registry = Registry(Keyset.new())
    registry.submit(Register("s", STRING, metadata=META))
    shown = next(registry.shown(Keyset.new()))
    assert shown is not None
    assert shown.properties is not None
    assert shown.properties["__enc__"] == "true"
    assert SECRET not in shown.properties.values()


def test_the_guid_and_a_repeat_need_no_key() -> None:
    registry = Registry(Keyset.new())
    first = orjson.loads(registry.submit(Register("s", STRING, metadata=META)))
    without = Registry(None, registry.rows)
    again = orjson.loads(without.submit(Register("s", STRING, metadata=META)))
    assert not without.log
    assert (first["id"], first["guid"]) == (again["id"], again["guid"])


@pytest.mark.parametrize(
    "meta", [META, Metadata(properties={"__enc__": "true", "pw": "AAAA"}, sensitive=["pw"])]
)
def test_without_the_secret_nothing_sensitive_is_written_beside(meta: Metadata) -> None:
    encoding = Registry(Keyset.new())
    encoding.submit(Register("s", STRING, metadata=META))
    refused = Registry(None, encoding.rows).refusal(Register("t", INT, metadata=meta))
    assert refused.code == 42205
    assert "metadata_encoder_secret" in refused.message


def test_without_the_secret_nothing_encrypted_is_inherited() -> None:
    encoding = Registry(Keyset.new())
    encoding.submit(Register("s", '{"type":"record","name":"R","fields":[]}', metadata=META))
    same = '{"type":"record","name":"R","fields":[],"doc":"d"}'
    assert Registry(None, encoding.rows).refusal(Register("s", same)).code == 42205


def test_without_the_secret_what_is_encrypted_can_be_deleted() -> None:
    encoding = Registry(Keyset.new())
    encoding.submit(Register("s", STRING, metadata=META))
    before = value_of(encoding.log[-1])
    without = Registry(None, encoding.rows)
    without.submit(DeleteVersion("s", 1))
    assert value_of(without.log[-1]) == before | {"deleted": True}


def test_without_encrypted_metadata_none_needs_a_secret() -> None:
    registry = Registry(None)
    registry.submit(Register("s", STRING, metadata=META))
    assert list(registry.shown()) == [META]


@pytest.mark.parametrize("properties", [{"__enc__": "true"}, {"__enc__": "x"}])
def test_the_reserved_property_is_refused(properties: dict[str, str]) -> None:
    registry = Registry(Keyset.new())
    assert registry.refusal(Register("s", STRING, metadata=Metadata(properties=properties))).code == 42201


def test_what_others_wrote_under_the_reserved_name_stays_readable() -> None:
    meta = Metadata(properties={"__enc__": "true", "pw": "in clear"}, sensitive=["pw"])
    value = schema_value(Subject.parse("s"), 1, 1, STRING, metadata=meta)
    view = DictView()
    view.commit(apply(view, Record(0, 1, schema_key(Subject.parse("s"), 1), value)))
    assert not has_encoded(view)
    row = next(scan(PlainView(view, Keyset.new()), layout.VERSION))[1]
    assert entities.metadata(version_row.VersionRow.unpack(row)) == meta


def test_it_is_known_as_long_as_a_version_is_encrypted() -> None:
    registry = Registry(Keyset.new())
    registry.submit(Register("s", STRING, metadata=META))
    assert has_encoded(registry.rows)
    registry.submit(DeleteVersion("s", 1))
    registry.submit(DeleteVersion("s", 1, permanent=True))
    assert not has_encoded(registry.rows)


words = st.text(min_size=1, max_size=8)


@given(
    st.dictionaries(words.filter(lambda each: each != "__enc__"), st.text(), min_size=1, max_size=4),
    st.lists(words, max_size=3),
    st.booleans(),
)
def test_what_is_encrypted_folded_and_seeded_again_reads_as_it_was(
    properties: dict[str, str], further: list[str], deleted: bool
) -> None:
    meta = metadata({"properties": properties, "sensitive": [*list(properties)[:2], *further]})
    subject, keyset = Subject.parse("s"), Keyset.new()
    value = schema_value(subject, 1, 7, STRING, metadata=meta, deleted=deleted)
    (entry,) = encrypt_entries([_entry(subject, value)], DictView(), keyset)
    first, second = DictView(), DictView()
    first.commit(apply(first, Record(0, 1, entry.key, entry.value)))
    for number, each in enumerate(reseed.entries(first)):
        second.commit(apply(second, Record(number, 2, each.key, each.value)))
    assert not list(reseed.differences(first, second))
    found = versions.get(PlainView(second, keyset), subject, 1)
    assert found is not None
    assert (entities.metadata(found), found.deleted) == (meta, deleted)
    assert found.md5 == read_schema(value).md5
    packed = second.get(layout.version_key(subject, 1))
    assert packed is not None
    assert plain_row(plain_row(packed, keyset), keyset) == plain_row(packed, keyset)


def _entry(subject: Subject, value: bytes) -> Entry:
    return Entry(schema_key(subject, 1), value)
