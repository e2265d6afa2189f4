"""Random logs with everything that a log can contain: every key type, damage, and foreign spelling."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import orjson
from hypothesis import strategies as st

from registry.domain.fold.fold import apply, owner
from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import (
    AssociationKey,
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Key,
    ModeKey,
    NoopKey,
    Record,
    SchemaKey,
    UnreadableKey,
    canonical_key,
    decode_key,
)
from registry.domain.model import TOP, Metadata, Reference, Rule, RuleSet, Subject
from registry.domain.rows.memory_views import DictView
from registry.log.contract import Log

# A key and a value.
Said = tuple[bytes | None, bytes | None]

SUBJECTS = [
    Subject(".", "a"),
    Subject(".", "b\u00e9"),
    Subject(".c", "a"),
    Subject(".", "l" * 130),
    Subject(".c", ""),
    TOP,
]
subjects = st.sampled_from(SUBJECTS)
versions = st.integers(1, 3)
references = st.lists(
    st.builds(Reference, st.just("n"), st.sampled_from(["a", "b\u00e9", ":.c:a", ":.:a", "x"]), versions),
    max_size=2,
)


def _foreign_key(raw: bytes) -> st.SearchStrategy[bytes]:
    """Return the key as others write it: members in another order, further ones, older magic."""
    fields = orjson.loads(raw)
    other_order = orjson.dumps(dict(reversed(fields.items())))
    further = orjson.dumps(fields | {"seq": 1})
    older = orjson.dumps(fields | {"magic": 0})
    return st.sampled_from([raw, raw, raw, other_order, further, older])


def _with_foreign_members(raw: bytes) -> bytes:
    return orjson.dumps(orjson.loads(raw) | {"offset": 99, "ts": 1, "unknown": {"x": [None]}})


garbage = st.sampled_from(
    [b"", b"{", b"[]", b"null", b"\xff", b'{"id":"x"}', b'{"version":-1}', b'{"mode":"x"}']
) | (st.binary(max_size=6))


def _said(
    key: st.SearchStrategy[Key], value: Callable[[Key], st.SearchStrategy[bytes]]
) -> st.SearchStrategy[Said]:
    def of(key: Key) -> st.SearchStrategy[Said]:
        good = value(key)
        each = st.one_of(good, good, good.map(_with_foreign_members), st.none(), garbage)
        return st.tuples(_foreign_key(canonical_key(key)), each)

    return key.flatmap(of)


def _schema_value(key: Key) -> st.SearchStrategy[bytes]:
    assert isinstance(key, SchemaKey)
    return st.builds(
        values.schema_value,
        st.just(key.subject),
        st.just(key.version),
        st.integers(0, 3),
        st.sampled_from(['"int"', '"long"', '{"type":"\U0001f600\\u0001"}']),
        schema_type=st.sampled_from(["AVRO", "JSON", "X"]),
        references=references,
        metadata=st.sampled_from([None, None, Metadata(), Metadata(properties={"p": "1"})]),
        rule_set=st.sampled_from([None, None, RuleSet(domain_rules=[Rule(name="r")])]),
        deleted=st.booleans(),
        md5=st.sampled_from([None, None, None, bytes(16)]),
    )


def _config_value(key: Key) -> st.SearchStrategy[bytes]:
    assert isinstance(key, ConfigKey)
    level = st.sampled_from(subject_values.LEVELS)
    return level.map(lambda each: subject_values.config_value(key.subject, {"compatibilityLevel": each}))


def _association_key(subject: Subject) -> st.SearchStrategy[Key]:
    names = st.sampled_from(["n", "l" * 130, None])
    return st.builds(
        AssociationKey,
        st.just(subject),
        names,
        st.sampled_from([None, "ns"]),
        st.just("topic"),
        st.just("value"),
    )


webhook_names = st.sampled_from(["h", "l" * 130])
source_names = st.sampled_from(["t", "l" * 130])
_GUID = "00000000-0000-0000-0000-00000000000a"
uses = st.lists(
    st.sampled_from(
        [
            ["value", "id", 1, 3, 60, 1, 2, True],
            ["key", "id", 1, 3, 60, 1, 2],
            ["value", "header-guid", _GUID, 1, 9, 1, 1, False],
            ["value", "none", None, 1, 9, 1, 1, True],
        ]
    ),
    max_size=3,
)
usage_values = st.tuples(st.sampled_from(["", ".", ".c", "." + "k" * 130]), uses).map(
    lambda said: orjson.dumps(
        {"census": "c", "state": "read", "uses": said[1], **({"context": said[0]} if said[0] else {})}
    )
)
schemas = _said(st.builds(SchemaKey, subjects, versions), _schema_value)
deletes = _said(
    st.builds(DeleteSubjectKey, subjects),
    lambda key: versions.map(lambda version: values.delete_subject_value(TOP, version)),
)
others = st.one_of(
    _said(st.builds(ConfigKey, subjects), _config_value),
    _said(
        st.builds(ModeKey, subjects),
        lambda key: st.sampled_from([subject_values.mode_value(TOP, m) for m in subject_values.MODES]),
    ),
    _said(st.builds(ClearSubjectKey, subjects), lambda key: st.just(b"{}")),
    _said(st.builds(ContextKey, st.sampled_from([".c", "." + "k" * 130])), lambda key: st.just(b"{}")),
    _said(
        subjects.flatmap(_association_key),
        lambda key: st.sampled_from(
            [b"{}", b'{"lifecycle":"WEAK","createTs":7}', b'{"resourceId":"r"}', b'{"resourceId":"s"}']
        ),
    ),
    _said(st.sampled_from([NoopKey(None, None), NoopKey("later", None)]), lambda key: st.just(b"{}")),
    _said(
        st.sampled_from(
            [NoopKey(each, None) for each in (records.BARRIER, records.SNAPSHOT, records.RESEED)]
        ),
        lambda key: st.just(b'{"a":1}'),
    ),
    _said(
        st.builds(NoopKey, st.just(records.WEBHOOK), st.none(), webhook_names),
        lambda key: st.just(b'{"url":"https://a","id":"00","kinds":["mode_set"],"rotations":1}'),
    ),
    _said(
        st.builds(NoopKey, st.just(records.POSITION), st.none(), webhook_names),
        lambda key: st.sampled_from([b"{}", b'{"next":7}', b'{"next":-1}']),
    ),
    _said(
        st.builds(NoopKey, st.just(records.USAGE), st.none(), source_names, st.integers(0, 1)),
        lambda key: usage_values,
    ),
    _said(
        st.just(NoopKey(records.CENSUS, None)),
        lambda key: st.just(
            b'{"id":"c","location":"/l","sha256":"00","started":1,"ended":2,"complete":true}'
        ),
    ),
    _said(
        st.builds(
            NoopKey, st.just(records.IDS), st.sampled_from([".", ".c", records.free_range_name(".c", 8)])
        ),
        lambda key: st.just(b'{"upto":9}'),
    ),
)
foreign = st.tuples(
    st.sampled_from(
        [None, b"", b"\xff", b"{}", b'{"keytype":"DEK","magic":0}', b'{"keytype":"SCHEMA","magic":7}']
    ),
    st.none() | garbage,
)


principals = st.sampled_from([b"", b"", b"alice", "zoë".encode(), b"\xff\n"])


def _records(said: list[tuple[Said, bytes]]) -> list[Record]:
    return [
        Record(3 * index, 1000 + index, key, value, principal)
        for index, ((key, value), principal) in enumerate(said)
    ]


# Logs with holes in their offsets.
logs = st.lists(
    st.tuples(st.one_of(schemas, schemas, schemas, deletes, others, foreign), principals), max_size=40
).map(_records)


def covering(log: list[Record]) -> list[Record]:
    """Return the log with every delete mark covering the subject's earlier ones, as this registry writes
    them.
    """
    highest: dict[Key, int] = {}
    return [_covering(record, highest) for record in log]


def _covering(record: Record, highest: dict[Key, int]) -> Record:
    key = meaning(record.key)
    if not isinstance(key, DeleteSubjectKey) or record.value is None:
        return record
    try:
        highest[key] = max(highest.get(key, 0), values.read_delete_mark(record.value))
    except values.BadValue:
        return record
    return record._replace(value=values.delete_subject_value(TOP, highest[key]))


def meaning(raw: bytes | None) -> Key | bytes | None:
    """Return the meaning of a key: equal for all bytes with that meaning."""
    try:
        return decode_key(raw)
    except UnreadableKey:
        return raw


def fold(log: Iterable[Record], view: DictView | None = None) -> DictView:
    """Return the rows of a log, or those of a view after it."""
    out = DictView() if view is None else view
    for record in log:
        out.commit(apply(out, record))
    return out


def rows_of_log(log: Log) -> DictView:
    """Return the rows that an open log gives."""
    rows, end, offset = DictView(), log.query_end(30), 0
    while offset < end:
        assert log.wait(offset, 30)
        fetched = log.read(offset, 1000, 1 << 20)
        fold(fetched.records, rows)
        offset = fetched.next
    return rows


def rows_of(log: list[Record]) -> dict[bytes, bytes]:
    """Return the rows of a log."""
    return dict(fold(log).rows())


def by_owner(log: list[Record]) -> list[list[Record]]:
    """Return the records of each owner, in order."""
    groups: dict[bytes, list[Record]] = {}
    for record in log:
        groups.setdefault(owner(record.key), []).append(record)
    return list(groups.values())
