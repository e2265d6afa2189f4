"""An index names every version that the tolerant comparison accepts, however the subject has changed."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from registry.domain.commands import Register
from registry.domain.fold.fold import apply
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Record
from registry.domain.lookup import find, registration
from registry.domain.lookup.equivalents import CHARACTERS_AT_ONCE, ROWS_AT_ONCE
from registry.domain.model import Reference, Subject, metadata
from registry.domain.parsing.memory import VersionIndexes
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Querying, Unanswered
from registry.domain.parsing.schema_queries import PAUSE, Key, SchemaAnswer, facts
from registry.domain.queries import versions
from registry.domain.queries.scope import Defaults, with_own_config
from registry.domain.queries.versions import Registered
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import Block, History, View
from registry.store.lmdb import Store
from registry.store.open import open_store
from registry.workers.process import answer_query
from registry.workers.worker import WorkRequest

SUBJECT, BASE = Subject(".", "s"), Subject(".", "base")
BASE_TEXT = '{"type":"record","name":"B","fields":[{"name":"a","type":"int"}]}'
USES = '{"type":"record","name":"U","fields":[{"name":"b","type":%s}]%s}'
REFERENCE = [Reference("B", "base", 1)]
BROKEN = [Reference("B", "base", 7)]


def said(text: str, kind: str = "AVRO", listed: list[Reference] | None = None, **more: str) -> Register:
    meta = metadata({"properties": {name.replace("__", ":"): value for name, value in more.items()}})
    return Register("s", text, kind, listed or [], metadata=meta if more else None)


CONTENTS = [
    said('{"type":"int","x":1,"y":2}'),
    said('{"type":"int","y":2,"x":1}'),
    said('{"type":"int","x":1,"y":2}', k="v"),
    said('{"type":"int","y":2,"x":1}', confluent__version="2"),
    said('{"type":"int","x":1,"y":2}', confluent__version="3"),
    said('{"type":"int","x":1.0,"y":2}'),
    said('"string"'),
    said(USES % ('"B"', ""), listed=REFERENCE),
    said(USES % ('"B"', ',"doc":"d"'), listed=REFERENCE),
    said(USES % (BASE_TEXT, "")),
    said(USES % (BASE_TEXT, ',"doc":"d"')),
    said('{"title":"t","type":"string"}', "JSON"),
    said('{"type":"string","title":"t"}', "JSON"),
    said('{ "type":"string","title":"t"}', "JSON", k="v"),
    said('syntax = "proto3"; message M { string a = 1; }', "PROTOBUF"),
    said('syntax = "proto3";\nmessage M {\n  string a = 1; }\n', "PROTOBUF"),
]
STORED = [*CONTENTS, said(USES % ('"B"', ""), listed=BROKEN), said("no schema"), said('"int"', "XML")]

PLACES = st.integers(1, 5)
PUT = st.tuples(st.just("put"), PLACES, st.sampled_from(range(len(STORED))))
STEPS = st.one_of(
    PUT,
    PUT,
    PUT,
    st.tuples(st.just("top"), st.just(0), st.sampled_from(range(len(STORED)))),
    st.tuples(st.sampled_from(["hide", "drop"]), PLACES, st.just(0)),
    st.tuples(st.sampled_from(["mark", "unmark", "start", "end", "abandon"]), PLACES, st.just(0)),
)


class Rows:
    """A store, and changes over it that may be committed or abandoned, as the writer's are."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.offset = 0
        self._pending: list[tuple[bytes, bytes | None]] | None = None

    @contextmanager
    def view(self) -> Iterator[View]:
        with self.store.view() as view:
            overlay = OverlayView(view)
            for change in self._pending or ():
                overlay.commit([change])
            yield view if self._pending is None else overlay

    def append(self, key: bytes, value: bytes | None) -> None:
        with self.view() as view:
            changes = apply(view, Record(self.offset, 0, key, value))
        self.offset += 1
        if self._pending is None:
            self.store.commit(changes, self.offset)
        else:
            self._pending += changes

    def do(self, step: tuple[str, int, int]) -> None:
        what, version, content = step
        if what == "start":
            self._pending = self._pending or []
        elif what == "abandon":
            self._pending = None
        elif what == "end" and self._pending is not None:
            pending, self._pending = self._pending, None
            self.store.commit(pending, self.offset)
        elif what in ("mark", "unmark"):
            mark = values.delete_subject_value(SUBJECT, version) if what == "mark" else None
            self.append(records.delete_subject_key(SUBJECT), mark)
        elif what in ("put", "top"):
            with self.view() as view:
                newest = versions.newest(view, SUBJECT)
            self.put(version or (1 if newest is None else newest.version + 1), STORED[content])
        elif what == "drop":
            self.append(records.schema_key(SUBJECT, version), None)
        else:
            with self.view() as view:
                row = versions.get(view, SUBJECT, version)
            if row is not None:
                self.append(records.schema_key(SUBJECT, version), values.schema_value_of(row, deleted=True))

    def put(self, version: int, register: Register, subject: Subject = SUBJECT) -> None:
        value = values.schema_value(
            subject,
            version,
            version,
            register.schema,
            schema_type=register.schema_type or "AVRO",
            references=register.references or (),
            metadata=register.metadata,
        )
        self.append(records.schema_key(subject, version), value)


@contextmanager
def rows() -> Iterator[Rows]:
    with tempfile.TemporaryDirectory() as folder:
        store, _ = open_store(Path(folder) / "store", "a-log", 1000, map_bytes=16 << 20, fold=1)
        made = Rows(store)
        made.put(1, said(BASE_TEXT), BASE)
        yield made
        store.close()


def one_by_one(
    view: View, parser: Parser, content: registration.Content, *, deleted: bool
) -> Registered | None:
    """Return the result of comparing with each version."""
    every = versions.versions(view, SUBJECT, deleted=deleted, newest_first=True)
    return next((each for each in every if parser.run(find.equivalent(view, content, each))), None)


def read(view: View, register: Register) -> Querying[registration.Content]:
    return registration.read(view, SUBJECT, register, new=False, normalize=False)


def sought_for(view: View, parser: Parser, register: Register) -> Querying[find.Match | None]:
    """Return the version that is found for a client's text."""
    content = yield from read(view, register)
    return (yield from find.find(view, parser.memory, SUBJECT, content))


def check(view: View, parser: Parser) -> None:
    for register in CONTENTS:
        content = parser.run(read(view, register))
        for deleted in (False, True):
            found = parser.run(find.find(view, parser.memory, SUBJECT, content, deleted=deleted))
            wanted = one_by_one(view, Parser(), content, deleted=deleted)
            if found is None or not found.exact:
                assert (None if found is None else found.registered) == wanted


@example([("put", 5, 6), ("start", 1, 0), ("put", 2, 0)], False)
@example([("put", 5, 6), ("start", 1, 0), ("put", 6, 0), ("abandon", 1, 0), ("put", 6, 2)], False)
@given(st.lists(STEPS, min_size=4, max_size=12), st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_is_found_is_what_comparing_with_each_version_finds(
    steps: list[tuple[str, int, int]], forgetful: bool
) -> None:
    parser = Parser()
    with rows() as made:
        for step in steps:
            if forgetful:
                parser.memory.indexes = VersionIndexes(0)
            made.do(step)
            with made.view() as view:
                check(view, parser)


def test_many_versions_are_read_elsewhere_a_few_at_a_time() -> None:
    parser, elsewhere = Parser(), Parser()
    # Numbers have many spellings, so only the parser can compare these.
    texts = [f'{{"type":"int","x":{number}.5,"doc":"{"d" * 500}"}}' for number in range(600)]
    known: dict[Key, SchemaAnswer] = {}
    with rows() as made:
        for number, text in enumerate(texts, 1):
            made.put(number, said(text))
        sought = said('{"doc":"%s","type":"int","x":3.5}' % ("d" * 500))
        asked = []
        with made.view() as view:
            while True:
                found = parser.attempt(sought_for(view, parser, sought), 2_000, 2_000, known)
                if not isinstance(found, Unanswered):
                    break
                asked.append(found.query)
                told = answer_query(WorkRequest(found.query, 60, 60), elsewhere).known
                assert told is not None
                known = facts(found.query, told)

    assert found is not None
    assert found.registered.version == 4
    assert all(sum(part.characters for part in each.parts) < 1.1 * CHARACTERS_AT_ONCE for each in asked)
    assert 1 < len([each for each in asked if each != PAUSE]) < 10


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", USES % ('"int"', ',"doc":"d%d"')),
        ("AVRO", '{"type":"record","name":"U","fields":[{"name":"b","type":"int","default":%d}]}'),
        ("JSON", '{"type":"string","title":"t%d"}'),
        ("PROTOBUF", 'syntax = "proto3"; message M { string a%d = 1; }'),
    ],
)
def test_versions_that_say_something_else_are_not_parsed(kind: str, text: str) -> None:
    parser = Parser()
    with rows() as made:
        for number in range(1, 2 * ROWS_AT_ONCE):
            made.put(number, said(text % number, kind))
        sought = said("  " + text % 7, kind)
        pauses = 0
        with made.view() as view:
            while True:
                content = replace(parser.run(read(view, sought)), text=sought.schema)
                found = parser.attempt(find.find(view, parser.memory, SUBJECT, content), 2_000, 2_000)
                if not isinstance(found, Unanswered):
                    break
                assert found.query == PAUSE
                pauses += 1

    assert found is not None
    assert found.registered.version == 7
    assert pauses < 6


def test_a_reader_leaves_a_long_subject_that_it_does_not_know_yet_to_the_primary() -> None:
    parser, defaults = Parser(), Defaults()
    with rows() as made:
        for number in range(1, 2 * ROWS_AT_ONCE):
            made.put(number, said(f'{{"type":"int","x":{number},"y":0}}'))
        answers = []
        with made.view() as view:
            for text in ['{"type":"int","x":3,"y":0}', *['{"y":0,"x":7,"type":"int"}'] * 2]:
                asked = said(text)
                place = with_own_config(view, Subject.parse(asked.subject))
                steps = find.already_registered(view, parser.memory, place, asked, defaults)
                answers.append(parser.attempt(steps, 16_000, 2_000))

    assert [b'"version":' in (each or b"") for each in answers] == [True, False, True]


def test_a_new_version_is_taken_in_without_a_look_at_the_others() -> None:
    parser = Parser()
    with rows() as made:
        for number in range(1, 301):
            made.put(number, said(f'{{"type":"int","x":{number}}}'))
        content = said('{"x":-1,"type":"int"}')
        with made.view() as view:
            wanted = parser.run(read(view, content))
            assert parser.run(find.find(view, parser.memory, SUBJECT, wanted)) is None
        made.put(301, said('{"type":"int","x":-1}'))
        with made.view() as view:
            counted = Counting(view)
            found = parser.run(find.find(counted, parser.memory, SUBJECT, wanted))

    assert found is not None
    assert found.registered.version == 301
    assert counted.reads < 20


class Counting:
    """A view that counts its reads."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.reads = 0

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return self._view.get(key)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        self.reads += 1
        return self._view.seek(key)

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        self.reads += 1
        return self._view.seek_back(key)

    def revision(self) -> object:
        return self._view.revision()

    def block(self, key: bytes) -> Block | None:
        return self._view.block(key)

    def history(self) -> History | None:
        return None


@pytest.mark.parametrize("limited", [False, True])
def test_a_long_subject_that_is_known_already_is_taken_in_bit_by_bit(limited: bool) -> None:
    parser = Parser()
    count = 2 * ROWS_AT_ONCE + 1
    with rows() as made:
        for number in range(1, count + 1):
            made.put(number, said(f'{{"type":"int","x":{number % 2},"y":0}}'))
        pauses = 0
        with made.view() as view:
            sought = said('{"y":0,"x":1,"type":"int"}')
            wanted = parser.run(read(view, sought))
            characters = 16_000 if limited else math.inf
            while True:
                found = parser.attempt(find.find(view, parser.memory, SUBJECT, wanted), characters, math.inf)
                if not isinstance(found, Unanswered):
                    break
                pauses += 1

    assert found is not None
    assert found.registered.version == count
    assert pauses == (3 if limited else 0)  # The last one for versions with one outline.
