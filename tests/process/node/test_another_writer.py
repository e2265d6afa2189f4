"""Another program writes to the log between a decision and its records: who gets the id and the version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from deploy.local.broker import Broker
from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Done,
    IdempotencyKey,
    Outcome,
    PutConfig,
    Refused,
    Register,
    Unknown,
)
from registry.domain.fold.fold import apply
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.queries import versions
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import VersionRow
from registry.log.contract import NO_HEADERS, OutcomeUnknown
from registry.log.embedded.log import EmbeddedLog
from registry.log.kafka.log import KafkaLog
from registry.node.write.overtaken import ROUNDS_MAX
from registry.store.views import StoreView
from tests.process.node.stations import Station, on_kafka
from tests.support.kafka_topics import make_topic

THEIRS, OURS = '"bytes"', '"string"'


def version(subject: str, number: int, schema_id: int, text: str = THEIRS) -> Entry:
    """Return the record of a version as another registry writes it."""
    name = Subject.parse(subject)
    return Entry(records.schema_key(name, number), values.schema_value(name, number, schema_id, text))


class SharedLog(EmbeddedLog):
    """A log that another program writes to right before appends: ``theirs`` has its records for each.

    With ``cut``, an append is made in two pieces, and the other program writes between them.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.theirs: list[list[Entry]] = []
        self.cut = 0

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        cut, self.cut = self.cut, 0
        first = super().append(entries[:cut]) if cut else None
        if self.theirs:
            super().append(self.theirs.pop(0))
        rest = super().append(entries[cut:])
        return rest if first is None else first


class Shared:
    """A primary whose log another program writes to."""

    def __init__(self, path: Path) -> None:
        self.log = SharedLog(path / "log")
        self.station = Station(path / "node", self.log)
        self.station.writer.open(None)

    def ask(self, command: Any, *theirs: list[Entry]) -> Outcome:
        """Decide a command; the other program writes ``theirs`` before the first append, the second, …"""
        self.log.theirs = list(theirs)
        return self.station.ask(command)

    def view(self) -> StoreView:
        return self.station.store.view()

    def clashes(self) -> int:
        return self.station.writer.stat().clashes


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    made = Shared(tmp_path)
    yield made
    check_consistent(made.station)
    made.station.close()


def check_consistent(station: Station) -> None:
    """Check that the store is the fold of the log, and that each id means one schema."""
    rows = DictView()
    for record in station.records():
        rows.commit(apply(rows, record))
    texts: dict[int, set[str]] = {}
    with station.store.view() as view:
        assert list(rows.rows()) == list(view_rows(view))
        for each in registered(view):
            texts.setdefault(each.row.schema_id, set()).add(text(each.row))
    assert all(len(each) == 1 for each in texts.values()), texts


def view_rows(view: StoreView) -> Iterator[tuple[bytes, bytes]]:
    row = view.seek(b"")
    while row is not None:
        yield row
        row = view.seek(row[0] + b"\0")


def registered(view: StoreView) -> list[versions.Registered]:
    found = [versions.at(view, key) for key, _ in view_rows(view) if key.startswith(b"V")]
    return [each for each in found if each is not None]


def reply(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Done), outcome
    found: dict[str, Any] = orjson.loads(outcome.body)
    return found


def text(row: VersionRow) -> str:
    found: str = orjson.loads(b"{" + row.schema[1:] + b"}")["schema"]
    return found


def text_of(station: Station, subject: str, number: int) -> str | None:
    with station.store.view() as view:
        row = versions.get(view, Subject.parse(subject), number)
        return None if row is None else text(row)


def text_by_id(station: Station, schema_id: int) -> str:
    with station.store.view() as view:
        found = versions.by_id(view, DEFAULT_CONTEXT, schema_id)
        assert found is not None
        return text(found.row)


def test_an_id_that_was_just_taken_is_not_given_out(shared: Shared) -> None:
    answer = reply(shared.ask(Register("ours", OURS), [version("theirs", 1, 1)]))
    assert answer["id"] > 1
    assert text_by_id(shared.station, 1) == THEIRS
    assert text_by_id(shared.station, answer["id"]) == OURS
    assert text_of(shared.station, "ours", 1) == OURS
    assert shared.clashes() == 1


def test_a_version_that_was_just_taken_keeps_its_schema(shared: Shared) -> None:
    reply(shared.ask(PutConfig(None, {"compatibilityLevel": "NONE"})))
    answer = reply(shared.ask(Register("s", OURS), [version("s", 1, 1)]))
    assert (text_of(shared.station, "s", 1), text_of(shared.station, "s", 2)) == (THEIRS, OURS)
    assert text_by_id(shared.station, answer["id"]) == OURS
    assert answer["id"] != 1
    assert answer["version"] == 2


def test_a_schema_that_the_other_has_just_registered_is_not_registered_again(shared: Shared) -> None:
    answer = reply(shared.ask(Register("s", OURS), [version("s", 1, 5, OURS)]))
    assert (answer["id"], answer["version"]) == (5, 1)
    assert text_of(shared.station, "s", 2) is None


def test_a_rule_that_was_just_set_counts(shared: Shared) -> None:
    read_only = Entry(records.mode_key(Subject.parse("s")), b'{"subject":"s","mode":"READONLY"}')
    outcome = shared.ask(Register("s", OURS), [read_only])
    assert isinstance(outcome, Refused)
    assert outcome.code == 42205
    assert text_of(shared.station, "s", 1) is None


def test_what_a_refused_command_has_overwritten_comes_back(shared: Shared) -> None:
    config = {"compatibilityLevel": "FULL", "alias": ""}
    reply(shared.ask(PutConfig("s", config)))
    read_only = Entry(records.mode_key(Subject.parse("s")), b'{"subject":"s","mode":"READONLY"}')
    with shared.view() as view:
        before = dict(view_rows(view))
    outcome = shared.ask(PutConfig("s", {"compatibilityLevel": "NONE"}), [read_only])
    assert isinstance(outcome, Refused)
    with shared.view() as view:
        after = dict(view_rows(view))
    assert {key: row for key, row in after.items() if key[:1] == b"F"} == {
        key: row for key, row in before.items() if key[:1] == b"F"
    }


def test_records_that_do_not_matter_change_nothing(shared: Shared) -> None:
    other = Entry(records.config_key(Subject.parse("other")), b'{"compatibilityLevel":"NONE"}')
    answer = reply(shared.ask(Register("s", OURS), [other, Entry(b"no key of a registry", b"{")]))
    assert answer["id"] == 1
    assert shared.clashes() == 0
    assert len(shared.station.records()) == 4, "theirs, the reservation of ids, and the version"


def test_only_commands_that_clash_are_decided_again(shared: Shared) -> None:
    subjects = ["a", "b", "c", "d"]
    for each in subjects:
        shared.station.submit(Register(each, f'{{"type":"fixed","name":"F","size":{ord(each)}}}'))
    shared.log.theirs = [[version("theirs", 1, 2)]]
    shared.station.writer.step()
    ids = [reply(each)["id"] for each in shared.station.outcomes]
    assert ids == [1, 5, 3, 4]
    assert shared.clashes() == 1
    for subject, schema_id in zip(subjects, ids, strict=True):
        assert text_of(shared.station, subject, 1) == text_by_id(shared.station, schema_id)


def test_commands_on_one_subject_keep_their_order(shared: Shared) -> None:
    reply(shared.ask(PutConfig(None, {"compatibilityLevel": "NONE"})))
    for text in ('"int"', '"long"', '"float"'):
        shared.station.submit(Register("s", text))
    shared.log.theirs = [[version("s", 1, 1)]]
    shared.station.writer.step()
    answers = [reply(each) for each in shared.station.outcomes[1:]]
    assert [each["version"] for each in answers] == [2, 3, 4]
    assert [text_by_id(shared.station, each["id"]) for each in answers] == ['"int"', '"long"', '"float"']
    assert text_of(shared.station, "s", 1) == THEIRS


def test_a_write_is_overtaken_twice(shared: Shared) -> None:
    theirs = [version("theirs", 1, 1)], [version("theirs", 2, 2, '"double"'), version("s", 1, 3, '"long"')]
    reply(shared.ask(PutConfig(None, {"compatibilityLevel": "NONE"})))
    answer = reply(shared.ask(Register("s", OURS), *theirs))
    assert answer["version"] == 2
    assert (text_of(shared.station, "s", 1), text_of(shared.station, "s", 2)) == ('"long"', OURS)
    assert text_by_id(shared.station, answer["id"]) == OURS


def test_a_write_is_overtaken_between_its_pieces(shared: Shared) -> None:
    for subject in ("a", "b"):
        shared.station.submit(Register(subject, f'{{"type":"fixed","name":"{subject}","size":1}}'))
    shared.log.cut = 2  # the reservation and the first version
    shared.log.theirs = [[version("theirs", 1, 2)]]
    shared.station.writer.step()
    first, second = (reply(each)["id"] for each in shared.station.outcomes)
    assert (first, second) == (1, 3)
    assert text_by_id(shared.station, 2) == THEIRS
    assert text_by_id(shared.station, 3) == text_of(shared.station, "b", 1)


def test_a_write_that_is_overtaken_for_ever_is_in_doubt(tmp_path: Path) -> None:
    shared = Shared(tmp_path)
    theirs = [[version("theirs", at + 1, at + 1, f'"{at}"')] for at in range(ROUNDS_MAX + 1)]
    shared.log.theirs = theirs
    shared.station.submit(Register("s", OURS))
    with pytest.raises(OutcomeUnknown):
        shared.station.writer.step()
    (outcome,) = shared.station.outcomes
    assert isinstance(outcome, Unknown)
    assert not outcome.repeats, "the header in the log has an answer that is not true"
    shared.station.close()


def test_without_another_writer_nothing_is_read_again(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    again = shared.log.read_again

    def counted(offset: int, records_max: int, bytes_max: int) -> Any:
        read.append(offset)
        return again(offset, records_max, bytes_max)

    monkeypatch.setattr(shared.log, "read_again", counted)
    for number in range(10):
        reply(shared.ask(Register(f"s{number}", OURS)))
    assert read == []


@pytest.fixture
def on_broker(kafka: Broker, tmp_path: Path) -> Iterator[tuple[Station, Callable[[Entry], None]]]:
    """A primary on a real topic, and a function that makes a plain producer write before the next append."""
    topic = make_topic(kafka.address)
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    theirs: list[Entry] = []

    class OvertakenLog(KafkaLog):
        def append(
            self,
            entries: Sequence[Entry],
            cuts: Sequence[int] = (),
            headers: Mapping[int, bytes] = NO_HEADERS,
        ) -> int:
            while theirs:
                entry = theirs.pop(0)
                producer.produce(topic, key=entry.key, value=entry.value)
                assert producer.flush(30) == 0
            return super().append(entries, cuts, headers)

    log = on_kafka(kafka.address, topic, made=OvertakenLog)
    station = Station(tmp_path / "node", log, remembers=True)
    station.claim()
    yield station, theirs.append
    check_consistent(station)
    station.close()


def test_it_is_so_on_a_broker_with_a_plain_producer(
    on_broker: tuple[Station, Callable[[Entry], None]],
) -> None:
    station, overtake = on_broker
    overtake(version("theirs", 1, 1))
    overtake(version("s", 1, 2, '"double"'))
    reply(station.ask(PutConfig("s", {"compatibilityLevel": "NONE"})))
    overtake(version("theirs", 2, 3, '"float"'))
    overtake(version("s", 2, 4, '"int"'))
    key = IdempotencyKey(b"k" * IDEMPOTENCY_KEY_BYTES, log_end(station))
    station.submit(Register("s", OURS), key=key)
    station.writer.step()
    answer = reply(station.outcomes[-1])
    assert answer["version"] == 3
    assert [text_of(station, "s", number) for number in (1, 2, 3)] == ['"double"', '"int"', OURS]
    assert text_by_id(station, answer["id"]) == OURS
    assert station.writer.stat().clashes == 1
    station.submit(Register("s", OURS), key=key)
    station.writer.step()
    assert reply(station.outcomes[-1]) == answer, "sent again, it is answered as it was"


def log_end(station: Station) -> int:
    return station.log.query_end(30)
