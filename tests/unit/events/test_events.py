"""Events: what single records say."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given

from registry.domain.events import EVERYTHING, Filter, Kind, decode_event, encode_event, event_of, parse_kinds
from registry.domain.fold.fold import apply
from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import AssociationKey, Record
from registry.domain.model import EVERYWHERE, TOP, Subject
from registry.domain.queries.subject_order import Prefix
from registry.domain.rows import layout
from registry.domain.rows.memory_views import DictView
from tests.unit.random_logs import logs

A = Subject.parse("a")
IN_C = Subject.parse(":.c:a")
C = Subject(".c", "")
ASSOCIATION = AssociationKey(A, "orders", "lkc1", "topic", "value")
SCHEMA = values.schema_value(A, 2, 7, '"int"')
FOREIGN_KEY = b'{"magic":0,"version":2,"subject":"a","keytype":"SCHEMA","seq":3}'


def event(key: bytes | None, value: bytes | None) -> object:
    """Return the event of a record as clients read it, without offset and time, which are checked here."""
    found = event_of(Record(5, 1000, key, value))
    if found is None:
        return None
    assert decode_event(encode_event(found)) == found
    members = orjson.loads(encode_event(found))
    assert (members.pop("offset"), members.pop("time")) == (5, 1000)
    return members


def test_an_event_names_the_principal_of_its_record() -> None:
    def named(principal: bytes) -> object:
        found = event_of(Record(5, 1000, records.schema_key(A, 2), SCHEMA, principal))
        assert found is not None
        assert decode_event(encode_event(found)) == found
        return orjson.loads(encode_event(found)).get("principal")

    assert named("zoë".encode()) == "zoë"
    assert named(b"a\nb\xff") == "a\ufffdb\ufffd", "written by somebody else"
    assert named(b"") is None
    assert event_of(Record(5, 1000, records.NOOP_KEY, None, b"alice")) is None


IN_A = {"context": ".", "subject": "a"}
ABOUT_ASSOCIATION = IN_A | {
    "resourceName": "orders",
    "resourceNamespace": "lkc1",
    "resourceType": "topic",
    "associationType": "value",
}
REGISTERED = {"kind": "version_registered", **IN_A, "version": 2, "id": 7, "type": "AVRO"}
JSON_SCHEMA = values.schema_value(IN_C, 1, 8, "{}", schema_type="JSON", deleted=True)
PUT = [
    (records.schema_key(A, 2), SCHEMA, REGISTERED),
    (FOREIGN_KEY, SCHEMA, REGISTERED),
    (
        records.schema_key(IN_C, 1),
        JSON_SCHEMA,
        {"kind": "version_soft_deleted", "context": ".c", "subject": ":.c:a"}
        | {"version": 1, "id": 8, "type": "JSON"},
    ),
    (
        records.delete_subject_key(A),
        values.delete_subject_value(A, 3),
        {"kind": "subject_soft_deleted", **IN_A, "version": 3},
    ),
    (records.clear_subject_key(A), values.clear_subject_value(A), {"kind": "subject_cleared", **IN_A}),
    (records.clear_subject_key(C), b"{}", {"kind": "subject_cleared", "context": ".c"}),
    (
        records.config_key(A),
        subject_values.config_value(A, {"compatibilityLevel": "FULL", "alias": "b"}),
        {"kind": "config_set", **IN_A, "level": "FULL"},
    ),
    (records.config_key(TOP), b'{"normalize":true}', {"kind": "config_set", "context": "."}),
    (
        records.mode_key(EVERYWHERE),
        b'{"mode":"READONLY"}',
        {"kind": "mode_set", "context": ".__GLOBAL", "mode": "READONLY"},
    ),
    (records.context_key(".c"), b"{}", {"kind": "context_created", "context": ".c"}),
    (
        records.association_key(ASSOCIATION),
        b'{"lifecycle":"WEAK"}',
        {"kind": "association_set", **ABOUT_ASSOCIATION},
    ),
    (records.BARRIER_KEY, b'{"producer":1,"epoch":2}', {"kind": "epoch_started"}),
    (records.SNAPSHOT_KEY, b"{}", {"kind": "snapshot_requested"}),
    (records.RESEED_KEY, b"{}", {"kind": "log_reseeded"}),
]
DELETED = [
    (records.schema_key(A, 2), {"kind": "version_deleted", **IN_A, "version": 2}),
    (FOREIGN_KEY, {"kind": "version_deleted", **IN_A, "version": 2}),
    (records.delete_subject_key(A), {"kind": "subject_restored", **IN_A}),
    (records.clear_subject_key(A), {"kind": "subject_uncleared", **IN_A}),
    (records.config_key(IN_C), {"kind": "config_deleted", "context": ".c", "subject": ":.c:a"}),
    (records.mode_key(TOP), {"kind": "mode_deleted", "context": "."}),
    (records.context_key(".c"), {"kind": "context_deleted", "context": ".c"}),
    (records.association_key(ASSOCIATION), {"kind": "association_deleted", **ABOUT_ASSOCIATION}),
    (records.BARRIER_KEY, None),
    (b"no key", None),
    (None, None),
]


@pytest.mark.parametrize(("key", "value", "expected"), PUT)
def test_a_record_is_identified_by_its_key_and_value(key: bytes, value: bytes, expected: object) -> None:
    assert event(key, value) == expected


@pytest.mark.parametrize("value", [None, b"", b"null"], ids=["tombstone", "empty", "null"])
@pytest.mark.parametrize(("key", "expected"), DELETED)
def test_all_forms_of_a_delete_are_one(key: bytes | None, value: bytes | None, expected: object) -> None:
    assert event(key, value) == expected


def test_every_kind_of_event_is_listed_here() -> None:
    listed = {members["kind"] for *_, members in [*PUT, *DELETED] if members is not None}
    assert listed | {"quarantined"} == {*Kind}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (records.reservation_key(".c"), values.reservation_value(100)),
        (records.NOOP_KEY, b"anything"),
        (b'{"keytype":"NOOP","magic":0,"registrar":"of a later release"}', b"{}"),
    ],
)
def test_records_that_say_nothing_to_users_have_no_event(key: bytes, value: bytes) -> None:
    assert event(key, value) is None


def test_a_value_without_sense_is_quarantined_with_its_subject_and_the_reason() -> None:
    quarantined = {"kind": "quarantined", **IN_A, "reason": "mode is unknown"}
    assert event(records.mode_key(A), b'{"mode":"?"}') == quarantined


def test_a_key_that_cannot_be_read_is_quarantined_without_a_subject() -> None:
    assert event(b"no key", b"{}") == {"kind": "quarantined", "reason": "the key is not JSON"}
    assert event(None, b"{}") == {"kind": "quarantined", "reason": "no key"}


@given(logs)
def test_an_event_is_quarantined_where_the_fold_quarantines_the_record(log: list[Record]) -> None:
    for record in log:
        changes = dict(apply(DictView(), record))
        in_quarantine = any(key.startswith(layout.QUARANTINE) for key in changes)
        found = event_of(record)
        assert in_quarantine == (found is not None and found.kind is Kind.QUARANTINED)


@given(logs)
def test_an_event_is_about_the_owner_of_the_rows(log: list[Record]) -> None:
    for record in log:
        found = event_of(record)
        if found is None or found.owner is None:
            continue
        assert found.owner.is_context == (found.subject is None)
        assert found.subject in (None, found.owner.qualified)
        assert found.context == found.owner.context


@pytest.mark.parametrize(
    ("prefix", "admitted"),
    [
        ("", "a top"),
        ("a", "a"),
        ("b", ""),
        (":.c:", "c:a c"),
        (":.c", "c:a c"),
        (":.c:a", "c:a"),
        (":*:a", "a c:a"),
        (":*:", "a top c:a c"),
    ],
)
def test_a_prefix_admits_subjects_as_in_lists_and_contexts_as_a_whole(prefix: str, admitted: str) -> None:
    keys = {
        "a": records.clear_subject_key(A),
        "top": records.clear_subject_key(TOP),
        "c:a": records.clear_subject_key(IN_C),
        "c": records.context_key(".c"),
        "cluster": records.SNAPSHOT_KEY,
    }
    wanted = Filter(subjects=Prefix.parse(prefix))
    events = {name: event_of(Record(1, 1, key, b"{}")) for name, key in keys.items()}
    assert " ".join(name for name, each in events.items() if each and wanted.admits(each)) == admitted
    assert all(each and EVERYTHING.admits(each) for each in events.values())


def test_kinds_are_named_exactly() -> None:
    wanted = Filter(kinds=parse_kinds(["context_created", "mode_set"]))
    created = event_of(Record(1, 1, records.context_key(".c"), b"{}"))
    gone = event_of(Record(1, 1, records.context_key(".c"), None))
    assert created is not None
    assert gone is not None
    assert wanted.admits(created)
    assert not wanted.admits(gone)
    with pytest.raises(ValueError, match="'Mode_set' is not a valid Kind"):
        parse_kinds(["Mode_set"])
