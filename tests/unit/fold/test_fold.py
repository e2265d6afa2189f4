"""The fold, case by case: logs that break a naive fold, and the rows of each record."""

from __future__ import annotations

import orjson
import pytest

from registry.domain.fold.fold import apply
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Record
from registry.domain.log_format.values import schema_value
from registry.domain.model import TOP, Metadata, Reference, RuleSet, Subject
from registry.domain.queries.versions import is_cleared
from registry.domain.rows import layout, version_row
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import scan
from tests.unit.row_keys import guid_key, id_key, referrer_key

A = Subject.parse("a")
IN_C = Subject.parse(":.c:a")
Said = tuple[bytes | None, bytes | None]
OTHER_ORDER = b'{"magic":1,"version":1,"subject":"a","keytype":"SCHEMA"}'
OLDER_MAGIC = b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":0}'


def fold(*said: Said | None) -> DictView:
    """Return the rows of a log; ``None`` stands for a compacted record or one of another owner."""
    view = DictView()
    for offset, each in enumerate(said):
        if each is not None:
            view.commit(apply(view, Record(offset, 1000 + offset, *each)))
    return view


def same(one: DictView, other: DictView) -> bool:
    return dict(one.rows()) == dict(other.rows())


def schema(
    version: int = 1, schema_id: int = 1, text: str = '"int"', subject: Subject = A, deleted: bool = False
) -> Said:
    return records.schema_key(subject, version), schema_value(
        subject, version, schema_id, text, deleted=deleted
    )


def bad(version: int = 1) -> Said:
    return records.schema_key(A, version), b'{"id":'


def gone(said: Said) -> Said:
    return said[0], None


def mark(upto: int, subject: Subject = A) -> Said:
    return records.delete_subject_key(subject), values.delete_subject_value(subject, upto)


def clear(subject: Subject) -> Said:
    return records.clear_subject_key(subject), values.clear_subject_value(subject)


def row(view: DictView, version: int = 1, subject: Subject = A) -> VersionRow | None:
    value = view.get(layout.version_key(subject, version))
    return None if value is None else VersionRow.unpack(value)


def deleted(view: DictView, *versions: int) -> list[bool | None]:
    found = (row(view, version) for version in versions)
    return [None if each is None else each.deleted for each in found]


def tables(view: DictView) -> str:
    return b"".join(key[:1] for key, _ in view.rows()).decode()


# What breaks a naive fold: each of these gave other rows before and after a compaction, or in another order.


def test_a_garbage_value_takes_what_its_key_said_before() -> None:
    assert same(fold(schema(), bad()), fold(None, bad()))
    assert tables(fold(schema(), bad())) == "Q"


def test_a_good_value_after_garbage_takes_the_quarantine() -> None:
    assert same(fold(bad(), schema()), fold(None, schema()))
    assert tables(fold(bad(), schema())) == "GIV"


def test_a_tombstone_takes_rows_and_quarantine() -> None:
    assert tables(fold(schema(), gone(schema()))) == ""
    assert tables(fold(bad(), gone(schema()))) == ""


@pytest.mark.parametrize("value", [b"", b"null"])
def test_an_empty_value_says_as_much_as_a_tombstone(value: bytes) -> None:
    for said in (schema(), bad(), (records.config_key(A), b"{}")):
        assert tables(fold(said, (said[0], value))) == ""
    # The log still has these bytes, so our tombstone has to repeat them.
    assert tables(fold((OTHER_ORDER, schema()[1]), (OTHER_ORDER, value))) == "K"
    assert deleted(fold(schema(), mark(1), (records.delete_subject_key(A), value)), 1) == [False]
    assert tables(fold((b"{}", value))) == ""


def test_a_rewritten_version_leaves_no_index_row_behind() -> None:
    before = (
        records.schema_key(A, 1),
        schema_value(A, 1, 1, '"int"', references=[Reference("n", "b", 1), Reference("m", "b", 1)]),
    )
    assert tables(fold(before)) == "GIRV"
    assert same(fold(before, schema(schema_id=2, text='"long"')), fold(None, schema(1, 2, '"long"')))


def test_the_highest_id_ever_seen_is_no_row() -> None:
    assert same(fold(schema(schema_id=9), schema(schema_id=1)), fold(None, schema(schema_id=1)))


def test_a_key_means_the_same_in_other_bytes() -> None:
    for raw in (OTHER_ORDER, OLDER_MAGIC):
        foreign = fold((raw, schema()[1]))
        assert tables(foreign) == "GIKV"
        assert set(fold(schema()).rows()) <= set(foreign.rows())
        assert tables(fold(schema(), (raw, None))) == ""
        assert tables(fold((raw, b"x"), schema())) == "GIKV"


def test_foreign_bytes_of_a_key_are_kept_until_their_own_tombstone() -> None:
    foreign = (OTHER_ORDER, schema()[1])
    kept = fold(foreign, (OLDER_MAGIC, schema()[1]), schema(), gone(schema()))
    assert sorted(value for _, value in kept.rows()) == sorted([OTHER_ORDER, OLDER_MAGIC])
    assert tables(fold(foreign, gone(schema()), gone(foreign))) == ""


def test_references_of_soft_deleted_versions_stay_indexed() -> None:
    key = records.schema_key(A, 1)
    value = schema_value(A, 1, 1, '"int"', references=[Reference("n", "b", 2)], deleted=True)
    view = fold((key, value))
    assert view.get(referrer_key(Subject(".", "b"), 2, A, 1)) == b""


def test_a_version_registered_after_the_delete_of_its_subject_lives() -> None:
    assert deleted(fold(schema(), mark(3), schema()), 1) == [False]
    assert deleted(fold(None, mark(3), schema()), 1) == [False]


def test_a_delete_mark_leaves_the_record_of_a_version_as_it_was() -> None:
    view = fold(schema(), schema(2), schema(3), mark(2))
    assert deleted(view, 1, 2, 3) == [True, True, False]
    found = row(view)
    assert found is not None
    assert (found.own_deleted, found.offset) == (False, 0)
    assert (view.get(layout.version_key(A, 1)) or b"").endswith(b',"ts":1000,"deleted":true}')


def test_a_later_mark_covers_an_earlier_one() -> None:
    assert same(fold(schema(), mark(1), schema(2), mark(2)), fold(schema(), None, schema(2), mark(2)))


def test_a_mark_that_is_taken_back_deletes_nothing() -> None:
    for last in (gone(mark(1)), (mark(1)[0], b"{}"), (mark(1)[0], b'{"version":"1"}')):
        view = fold(schema(), schema(2, deleted=True), mark(2), last)
        assert deleted(view, 1, 2) == [False, True]
        assert same(view, fold(schema(), schema(2, deleted=True), None, last))


def test_an_id_of_two_contents_stays_with_both() -> None:
    other = Subject.parse("b")
    view = fold(schema(text='"int"'), schema(text='"long"', subject=other))
    assert tables(view) == "GGIIVV"
    first = view.seek(layout.id_prefix(".", 1))
    assert first is not None
    assert first[0] == id_key(A, 1, 1, 0)
    assert same(
        fold(schema(text='"int"'), schema(text='"long"', subject=other), gone(schema())),
        fold(None, schema(text='"long"', subject=other)),
    )


def test_an_association_is_as_old_as_its_last_record() -> None:
    key = records.association_key(records.AssociationKey(IN_C, "n", "ns", "topic", "value"))
    view = fold((key, b"{}"), (key, b'{"guid":"g","lifecycle":"STRONG","frozen":true}'))
    value = next(scan(view, layout.ASSOCIATION))[1]
    assert orjson.loads(value) == {
        "guid": "g", "tenant": "default", "resourceName": "n", "resourceNamespace": "ns",
        "resourceType": "topic", "associationType": "value", "subject": ":.c:a",
        "lifecycle": "STRONG", "frozen": True, "createTs": 1001, "updateTs": 1001,
    }  # fmt: skip


def test_an_association_is_found_by_its_resource_as_its_last_record_says() -> None:
    key = records.association_key(records.AssociationKey(IN_C, "n", "ns", "topic", "value"))
    log = [(key, b'{"resourceId":"r"}'), (key, b'{"resourceId":"s","createTs":7}')]
    row_key = layout.association_key(IN_C, key)
    for view, resource_id in ((fold(*log[:1]), "r"), (fold(*log), "s")):
        named = scan(view, layout.resource_name_prefix("n", "ns"))
        assert [layout.association_of(each) for each, _ in named] == [row_key]
        listed = list(scan(view, layout.RESOURCE_ID))
        assert [each.startswith(layout.resource_id_prefix(resource_id)) for each, _ in listed] == [True]
        assert layout.association_of(listed[0][0]) == row_key
    assert tables(fold(*log, (key, b"{"))) == "Q"
    assert tables(fold(*log, (key, None))) == ""


def test_a_clear_touches_no_version_but_forgets_deleted_ones_when_they_are_read() -> None:
    log = [schema(deleted=True), schema(2), schema(1, 1, subject=IN_C, deleted=True)]
    for scope, forgotten in ((A, (True, False)), (TOP, (True, True)), (Subject(".c", ""), (False, True))):
        view = fold(*log, clear(scope))
        found, in_c = row(view), row(view, 1, IN_C)
        assert found is not None
        assert in_c is not None
        assert (is_cleared(view, A, found), is_cleared(view, IN_C, in_c)) == forgotten
        assert tables(view) == "C" + tables(fold(*log))
    live, late = row(fold(*log, clear(TOP)), 2), row(fold(clear(TOP), schema(deleted=True)))
    assert live is not None
    assert late is not None
    assert not is_cleared(fold(*log, clear(TOP)), A, live)
    assert not is_cleared(fold(clear(TOP), schema(deleted=True)), A, late)


# The exceptions to the law of compaction: what a compacted log cannot reproduce.


def test_exception_a_smaller_delete_mark_after_a_larger_one_loses_the_larger_in_compaction() -> None:
    log = [schema(), schema(2), mark(2), mark(1)]
    assert deleted(fold(*log), 1, 2) == [True, True]
    assert deleted(fold(log[0], log[1], None, log[3]), 1, 2) == [True, False]


def test_exception_a_tombstone_in_other_bytes_than_its_record_is_forgotten_before_it() -> None:
    log: list[Said | None] = [schema(), (OLDER_MAGIC, None)]
    assert tables(fold(*log)) == ""
    assert tables(fold(log[0], None)) == "GIV"


# The rows of each record.


@pytest.mark.parametrize(
    "raw", [b"\xff", b"{}", b'{"keytype":"DEK","magic":0}', b'{"keytype":"SCHEMA","magic":2}', None]
)
def test_what_has_no_readable_key_is_quarantined_until_its_tombstone(raw: bytes | None) -> None:
    view = fold((raw, b"x"))
    ((key, value),) = view.rows()
    said = orjson.loads(value)
    assert key[:1] == layout.QUARANTINE
    assert (said["offset"], said["ts"], bool(said["reason"])) == (0, 1000, True)
    assert said["key"] == (None if raw is None else raw.decode(errors="backslashreplace"))
    assert tables(fold((raw, b"x"), (raw, None))) == ""
    assert tables(fold((raw, None))) == ""
    assert same(fold((raw, b"x"), (raw, b"y")), fold(None, (raw, b"y")))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (records.config_key(A), b'{"compatibilityLevel":"SIDEWAYS"}'),
        (records.config_key(TOP), b'{"compatibilityPolicy":"SIDEWAYS"}'),
        (records.mode_key(A), b'{"mode":"import"}'),
        (records.mode_key(A), b"{}"),
        (records.delete_subject_key(A), b"{}"),
        (records.clear_subject_key(A), b"1"),
        (records.context_key(".c"), b"x"),
        (records.reservation_key(".c"), b'{"upto":-1}'),
        (records.BARRIER_KEY, b"[]"),
        (records.association_key(records.AssociationKey(A, "n", "", "", "")), b'{"lifecycle":"LOOSE"}'),
        (records.schema_key(A, 1), b'{"id":1,"schema":"{}","md5":"AAAA"}'),
        (records.schema_key(A, 1), b'{"id":1}'),
    ],
)
def test_a_bad_value_is_quarantined_with_its_key(key: bytes, value: bytes) -> None:
    view = fold((key, value))
    assert tables(view) == "Q"
    assert orjson.loads(next(view.rows())[1])["key"] == key.decode()
    assert tables(fold((key, value), (key, None))) == ""


def test_a_version_row_holds_the_ready_body_and_its_pieces() -> None:
    subject, meta = Subject.parse(':.c:a"\U0001f600'), Metadata(properties={"k": "v"})
    value = schema_value(
        subject, 3, 7, '"int"', references=[Reference("n", ":.d:x", 2)], metadata=meta, rule_set=RuleSet()
    )
    view = fold((records.schema_key(subject, 3), value))
    packed = view.get(layout.version_key(subject, 3)) or b""
    body = orjson.loads(packed[version_row.BODY :])
    assert body == {
        "subject": ':.c:a"\U0001f600', "version": 3, "guid": body["guid"], "schemaType": "AVRO",
        "schema": '"int"',
        "references": [{"name": "n", "subject": ":.d:x", "version": 2}],
        "metadata": {"properties": {"k": "v"}}, "ruleSet": {}, "ts": 1000, "deleted": False,
    }  # fmt: skip
    found = VersionRow.unpack(packed)
    assert found.pack() == packed
    assert b"".join((*found[6:12], found.tail)) == packed[version_row.BODY :]
    assert view.get(guid_key(subject, 3, found.md5)) == layout.number(7)
    assert view.get(id_key(subject, 3, 7, 0)) == b""
    assert view.get(referrer_key(Subject(".d", "x"), 2, subject, 3)) == b""


def test_a_version_can_be_said_again_from_its_row() -> None:
    for md5 in (None, bytes(range(16))):
        value = schema_value(
            IN_C,
            1,
            5,
            '"int"',
            references=[Reference("n", "s", 1)],
            metadata=Metadata(sensitive=["a"]),
            md5=md5,
        )
        found = row(fold((records.schema_key(IN_C, 1), value)), 1, IN_C)
        assert found is not None
        assert values.schema_value_of(found, deleted=False) == value
        assert values.schema_value_of(found, deleted=True) == value.replace(b"false", b"true")


def test_an_unqualified_reference_lies_in_the_context_of_its_referrer() -> None:
    value = schema_value(
        IN_C,
        1,
        1,
        '"int"',
        references=[Reference("n", "b", 1), Reference("m", ":.:b", 1), Reference("s", "a", 1)],
    )
    view = fold((records.schema_key(IN_C, 1), value))
    for referenced in (Subject(".c", "b"), Subject(".", "b"), IN_C):
        assert view.get(referrer_key(referenced, 1, IN_C, 1)) == b""


def test_the_key_decides_where_a_version_stands() -> None:
    value = schema_value(Subject.parse("z"), 9, 4, '"int"')
    found = row(fold((records.schema_key(A, 1), value)))
    assert found is not None
    assert found.head == b'{"subject":"a","version":1'


def test_a_version_of_the_empty_subject_has_no_subject_in_its_body() -> None:
    view = fold(schema(subject=TOP))
    found = row(view, 1, TOP)
    assert found is not None
    assert found.head == b'{"version":1'
    assert tables(view) == "GIV"


def test_config_mode_and_context_rows_hold_what_was_said_last() -> None:
    long = Subject(".c", "l" * 200)
    view = fold(
        (records.config_key(A), b'{"compatibilityLevel":"FULL","normalize":null,"x":1}'),
        (records.mode_key(TOP), b'{"mode":"IMPORT"}'),
        (records.mode_key(long), b'{"mode":"READONLY"}'),
        (records.context_key(".c"), values.context_value(".c")),
        (records.context_key("." + "c" * 200), b"{}"),
        (records.reservation_key(".c"), values.reservation_value(40)),
    )
    assert view.get(layout.scope_key(layout.CONFIG, A)) == b'{"subject":"a","compatibilityLevel":"FULL"}'
    assert view.get(layout.scope_key(layout.MODE, TOP)) == b"IMPORT"
    assert layout.mode_of(view.get(layout.scope_key(layout.MODE, long)) or b"") == "READONLY"
    assert [layout.scope_of(*each) for each in scan(view, layout.MODE)] == [TOP, long]
    assert view.get(layout.context_key(layout.CONTEXT, ".c")) == b""
    assert view.get(layout.context_key(layout.CONTEXT, "." + "c" * 200)) == b"." + b"c" * 200
    assert view.get(layout.context_key(layout.RESERVATION, ".c")) == layout.number(40)


def test_our_own_records_survive_a_bare_noop() -> None:
    log = [
        (records.BARRIER_KEY, b'{"producer":7,"offset":3}'),
        (records.reservation_key("."), b'{"upto":20}'),
    ]
    view = fold(*log, (records.NOOP_KEY, None), (records.NOOP_KEY, b"what"))
    assert tables(view) == "BN"
    barrier = orjson.loads(view.get(layout.cluster_key(records.BARRIER)) or b"")
    assert barrier == {"producer": 7, "offset": 0, "ts": 1000}
    assert tables(fold(*log, (log[0][0], None), (log[1][0], None))) == ""


def test_each_row_of_a_deleted_version_is_named_once_even_if_it_refers_to_another_twice() -> None:
    twice = [Reference("n", "b", 2), Reference("m", "b", 2)]
    view = fold((records.schema_key(A, 1), schema_value(A, 1, 1, '"int"', references=twice)))
    changes = apply(view, Record(1, 1001, records.schema_key(A, 1), None))
    assert len(changes) == len(dict(changes)) == 4


def test_webhooks_and_positions_are_rows_of_the_cluster() -> None:
    webhook = (records.webhook_key("h"), b'{"url":"https://a","id":"00","later":[]}')
    moved = (records.position_key("h"), b'{"next":7}')
    view = fold(webhook, (records.position_key("h"), b"{}"))
    assert tables(view) == "PW"
    assert orjson.loads(view.get(layout.webhook_key(layout.WEBHOOK, "h")) or b"") == {
        "url": "https://a", "id": "00", "name": "h", "offset": 0, "ts": 1000,
    }  # fmt: skip
    row = layout.webhook_key(layout.POSITION, "h")
    assert orjson.loads(view.get(row) or b"") == {"next": 2, "offset": 1, "ts": 1001}
    assert orjson.loads(fold(webhook, moved).get(row) or b"")["next"] == 7
    assert tables(fold(webhook, moved, (webhook[0], b'{"url":"https://a"}'), (moved[0], None))) == "Q"
