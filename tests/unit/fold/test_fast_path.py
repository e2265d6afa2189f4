"""The fast path for plain versions: it returns the rows of the general fold, and is used where it can be."""

from __future__ import annotations

import sys
from types import FrameType

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from registry.domain.fold import fold
from registry.domain.fold.fast_path import plain_key, plain_keys, plain_rows, plain_schema, plain_values
from registry.domain.log_format import values
from registry.domain.log_format.jackson import dumps, dumps_texts
from registry.domain.log_format.records import Record, schema_key
from registry.domain.model import Metadata, Reference, Subject
from registry.domain.rows.memory_views import DictView, OverlayView
from registry.domain.rows.view import Change
from tests.unit.random_logs import logs, rows_of

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.sampled_from(["a", "a b", "\u00e9", 'q"', "b\\", ":.c:a", ":.:a", ":.", "x" * 121, ""])
versions = st.sampled_from([1, 9, 10, 255, 256, 999_999_999, 2**31 - 1])
members = st.sampled_from(
    ["id", "md5", "schemaType", "references", "metadata", "ruleSet", "schema", "deleted", "other"]
)
references = st.just([{"name": "n", "subject": "s", "version": 1}])
anything = st.none() | st.booleans() | st.integers(-1, 2**31) | texts | st.sampled_from([[], {}]) | references
kinds = st.sampled_from(["AVRO", "JSON", "PROTOBUF", "X", ""])


def generally(record: Record) -> list[Change]:
    """Return the rows of a record from the general fold."""
    return fold._changes(DictView(), record)


@given(
    names | texts, versions, st.integers(0, 2**31 - 1), texts, kinds, st.booleans(), st.integers(-1, 2**62)
)
@example("a", 1, 1, '\x1f\x7f\u2028\uffff\U00010000"\\/\n', "AVRO", False, 0)
def test_both_ways_give_the_same_rows(
    name: str, version: int, schema_id: int, text: str, kind: str, deleted: bool, ts: int
) -> None:
    subject = Subject.parse(name)
    value = values.schema_value(subject, version, schema_id, text or "x", schema_type=kind, deleted=deleted)
    for offset in (0, 2**40):
        record = Record(offset, ts, schema_key(subject, version), value)
        assert dict(fold.apply(DictView(), record)) == dict(generally(record))


@given(st.dictionaries(members, anything))
def test_odd_members_of_a_value_make_no_difference(odd: dict[str, object]) -> None:
    for value in (odd, {"id": 1, "schema": "x"} | odd):
        record = Record(3, 4, schema_key(Subject(".", "a"), 1), orjson.dumps(value))
        assert dict(fold.apply(DictView(), record)) == dict(generally(record))


pieces = st.sampled_from([
    b'{"id":1,"schema":"a"}', b' {"id":2,\n"schema":"b"}\n', b'{"id":3,"schema":"c","md5":"AA=="}',
    b'{"id":1,"schema":"a"}]\n[{"id":1,"schema":"b"}', b'{"id":1,"schema":"a"},{"id":1,"schema":"b"}',
    b'{"id":1', b'"schema":"a"}', b'{"id":1,"schema":"a","other":[[1', b"2]]}", b'{"id":1,"schema":"a',
    b'b"}', b"", b"[", b"]", b"[" * 2_000,
])  # fmt: skip


@given(st.lists(pieces, max_size=6))
@example([b'{"id":1', b'"schema":"a"}', b'{"id":1,"schema":"a"},{"id":1,"schema":"b"}'])
def test_values_that_are_read_together_are_those_that_are_read_alone(raws: list[bytes]) -> None:
    assert values.decode_schemas(raws) == [_alone(raw) for raw in raws]
    found = plain_values(raws)
    assert [each is None for each in found] == [plain_schema(raw) is None for raw in raws]


@given(st.lists(st.builds(schema_key, st.builds(Subject.parse, names), versions) | st.binary(max_size=4)))
@example([schema_key(Subject(".", "a"), 1) + b"\n", b""])
@example([b"a\n" + schema_key(Subject(".", "a"), 1)])
def test_keys_that_are_read_together_are_those_that_are_read_alone(raws: list[bytes]) -> None:
    assert plain_keys(raws) == [plain_key(raw) for raw in raws]


def test_few_calls_are_made_for_each_of_many_plain_versions() -> None:
    count, calls = 1000, 0
    subjects = [Subject(".", f"s-{at}") for at in range(count)]
    keys = [schema_key(each, 1) for each in subjects]
    parts = [values.schema_value(each, 1, at, f'"{at}"') for at, each in enumerate(subjects)]
    log = [Record(at, 1, *each) for at, each in enumerate(zip(keys, parts, strict=True))]
    changes: dict[bytes, bytes | None] = {}
    view = OverlayView(DictView(), changes)

    def counted(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        fold.apply_all(view, log, changes)
    finally:
        sys.setprofile(None)
    assert len(changes) == 3 * count
    assert calls < 5 * count


def _alone(raw: bytes) -> values.SchemaValue | None:
    try:
        return values.decode_schema(raw)
    except (ValueError, RecursionError):
        return None


def test_the_short_way_is_taken_for_what_registrations_write() -> None:
    subject = Subject(".", "orders-value")
    key = plain_key(schema_key(subject, 7))
    assert key is not None
    plain = plain_schema(values.schema_value(subject, 7, 1, '{"type":"string"}'))
    assert plain is not None
    assert plain_rows([(key, plain, 0, 0)])[0]
    further = [
        values.schema_value(subject, 7, 1, "x", references=[Reference("n", "s", 1)]),
        values.schema_value(subject, 7, 1, "x", metadata=Metadata()),
        values.schema_value(subject, 7, 1, "x", md5=bytes(16)),
    ]
    assert [plain_schema(value) for value in further] == [None] * 3
    assert plain_key(schema_key(Subject(".c", "orders-value"), 7)) is None


@given(logs, st.integers(0, 40))
def test_what_is_not_named_as_known_is_a_new_row(log: list[Record], at: int) -> None:
    before = rows_of(log[:at])
    changes: dict[bytes, bytes | None] = {}
    known = fold.apply_all(OverlayView(DictView(before.items()), changes), log[at:], changes)
    assert all(value is not None and key not in before for key, value in changes.items() if key not in known)
    assert known <= changes.keys()
    after = before | changes
    assert {key: value for key, value in after.items() if value is not None} == rows_of(log)


def test_a_valid_record_removes_what_an_earlier_batch_has_quarantined() -> None:
    key = schema_key(Subject(".", "a"), 1)
    log = [Record(0, 0, key, b"{"), Record(1, 0, key, values.schema_value(Subject(".", "a"), 1, 1, "x"))]
    rows = DictView(rows_of(log[:1]).items())
    changes: dict[bytes, bytes | None] = {}
    fold.apply_all(OverlayView(rows, changes), log[1:], changes)
    rows.commit(changes.items())
    assert dict(rows.rows()) == rows_of(log)


@given(texts)
def test_a_text_is_printed_as_within_other_values(text: str) -> None:
    assert dumps([text]) == b"[%b]" % dumps(text)


@given(st.lists(texts))
@example(["a\n\x1f", "\U00010000\u2028", ""])
def test_texts_that_are_printed_together_are_those_that_are_printed_alone(several: list[str]) -> None:
    assert dumps_texts(several) == [dumps(text) for text in several]
