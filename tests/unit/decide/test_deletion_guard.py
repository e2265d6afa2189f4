"""The deletion guard: when it refuses, what it says, and that no history of writes strands a message."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID

import orjson
import pytest

from registry.domain.commands import (
    Command,
    DeleteSubject,
    DeleteVersion,
    PutCensus,
    PutMode,
    PutUsage,
    Register,
)
from registry.domain.decide import deletion_guard
from registry.domain.decide.deletion_guard import REFUSE
from registry.domain.errors import RegistryError
from registry.domain.model import Reference, Subject
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import Defaults
from registry.domain.queries.versions import Registered
from tests.unit.small_registry import SmallRegistry, record

DAY = 86_400_000
GUARDED = Defaults(compatibility="NONE", deletion_guard=REFUSE, census_age_max_ms=7 * DAY)
# Records of small registries have the times 1000, 1001, …
LATER = 1_900
GONE = DeleteVersion("orders", 1, permanent=True)


@pytest.fixture
def small() -> SmallRegistry:
    """A registry with a guard and a version that is soft-deleted."""
    small = SmallRegistry(replace(GUARDED, now=LATER))
    small.place("orders", record("R", "a"))
    small.place("orders", record("R", "b"))
    small.submit(DeleteVersion("orders", 1))
    # So that the record of a census is not older than the census.
    while len(small.log) < 1_000:
        small.append(b'{"keytype":"NOOP","magic":0}', None)
    return small


def count(small: SmallRegistry, source: str, *ids: int, **members: object) -> None:
    uses = [["value", "id", each, 1_500, 60, 1, 2, True] for each in ids]
    value = {"census": "c1", "state": "read", "messages": 3, "uses": uses, **members}
    small.submit(PutUsage(source, orjson.dumps(value)))


def finish(small: SmallRegistry, started: int = LATER - 5, **members: object) -> None:
    census = {
        "id": "c1",
        "location": "/c",
        "sha256": "0",
        "started": started,
        "ended": LATER,
        "complete": True,
    }
    small.submit(PutCensus(orjson.dumps(census | members)))


def reason(small: SmallRegistry) -> str:
    code, message = small.refusal(GONE)
    assert code == 40984
    start = "Subject 'orders' is not deleted permanently: "
    end = ". force=true skips this check"
    assert (message[: len(start)], message[-len(end) :]) == (start, end)
    return message[len(start) : -len(end)]


def test_a_version_that_a_census_found_unused_is_deleted(small: SmallRegistry) -> None:
    assert reason(small) == "no census has been published, so it is unknown if messages use it"
    count(small, "orders", 2)
    finish(small)
    assert small.submit(GONE) == 1


def test_a_version_in_use_is_not_deleted_and_the_topics_are_counted(small: SmallRegistry) -> None:
    for topic in "abcdefg":
        count(small, topic, 1)
    finish(small)
    assert reason(small) == "version 1 is in use: messages: 10,500, topics or files: 7"
    assert small.submit(DeleteVersion("orders", 1, permanent=True, force=True)) == 1


def test_ids_of_other_contexts_do_not_count(small: SmallRegistry) -> None:
    count(small, "orders-c", 1, context=".c")
    finish(small)
    assert small.submit(GONE) == 1


def test_a_guid_counts_as_an_id_does(small: SmallRegistry) -> None:
    found = versions.get(small.view, Subject(".", "orders"), 1)
    assert found is not None
    use = ["key", "header-guid", str(UUID(bytes=found.md5)), 1, 1, 1, 1, False]
    count(small, "orders", uses=[use])
    finish(small)
    assert reason(small) == "version 1 is in use: messages: 1, topics or files: 1"


def test_a_census_must_be_complete_recent_and_later_than_the_soft_deletion(small: SmallRegistry) -> None:
    count(small, "secret", state="unread", reason="not authorized")
    finish(small, started=1_001, complete=False, unread=1)
    assert reason(small) == "the newest census, c1, is not complete; unread sources: 1"
    finish(small, started=1_002)
    assert reason(small) == "version 1 was soft-deleted after the newest census, c1, began"
    finish(small, started=10**15, ended=10**15)
    small.defaults = replace(small.defaults, now=10**15)
    assert small.submit(DeleteVersion("orders", 2)) == 2
    assert "soft-deleted after" in small.refusal(DeleteVersion("orders", 2, permanent=True))[1]
    small.defaults = replace(small.defaults, now=10**15 + 8 * DAY)
    assert reason(small) == "the newest census, c1, ended 8.0 days ago: run another one"


def test_a_subject_is_deleted_only_if_none_of_its_versions_is_needed(small: SmallRegistry) -> None:
    small.submit(DeleteSubject("orders"))
    finish(small, started=LATER + 300, ended=LATER + 300)
    count(small, "orders", 2)
    code, message = small.refusal(DeleteSubject("orders", permanent=True))
    assert (code, "version 2 is in use: messages: 1,500" in message) == (40984, True)
    assert small.submit(DeleteSubject("orders", permanent=True, force=True)) == [1, 2]


@pytest.mark.parametrize("scope", ["orders", ":.:", None])
def test_an_import_does_not_begin_with_the_loss_of_versions_in_use(
    small: SmallRegistry, scope: str | None
) -> None:
    small.submit(DeleteSubject("orders"))
    finish(small, started=LATER + 300, ended=LATER + 300)
    count(small, "orders", 2)
    code, message = small.refusal(PutMode(scope, "IMPORT", "IMPORT"))
    assert (code, "version 2 is in use: messages: 1,500" in message) == (40984, True)
    count(small, "orders")
    small.submit(PutMode(scope, "IMPORT", "IMPORT"))
    assert not versions.exists(small.view, Subject(".", "orders"), deleted=True)


def test_other_deletions_and_registries_without_a_guard_are_as_before() -> None:
    small = SmallRegistry()
    small.place("orders")
    count(small, "orders", 1)
    assert small.submit(DeleteVersion("orders", 1)) == 1
    assert small.submit(GONE) == 1


class World:
    """A registry and topics whose messages name its ids, with a history that ``chance`` decides."""

    def __init__(self, chance: random.Random, guarded: Defaults = GUARDED) -> None:
        self.chance = chance
        self.small = SmallRegistry(guarded)
        # The ids of each topic's messages, oldest first.
        self.topics: dict[str, list[int]] = {topic: [] for topic in "tu"}
        # A census that is running: when it began, and what it has counted so far.
        self.running: tuple[int, dict[str, set[int]]] | None = None
        self.deleted = self.refused = 0

    @property
    def now(self) -> int:
        return 1_000 + len(self.small.log)

    def step(self) -> None:
        steps = (
            self.register, self.produce, self.soften, self.soften, self.remove, self.remove, self.expire,
            self.read, self.read, self.publish, self.publish, self.expire,
        )  # fmt: skip
        self.chance.choice(steps)()
        # Every record takes one millisecond, and so does every step.
        self.small.append(b'{"keytype":"NOOP","magic":0}', None)
        self.check()

    def place(self) -> tuple[str, int]:
        return self.chance.choice("ab"), self.chance.randint(1, 2)

    def attempt(self, command: Command) -> bool:
        self.small.defaults = replace(self.small.defaults, now=self.now)
        try:
            self.small.submit(command)
        except RegistryError as error:
            self.refused += error.code == 40984
            return False
        return True

    def register(self) -> None:
        subject, version = self.place()
        used = [Reference("N", *self.place())] if self.chance.random() < 0.3 else []
        self.attempt(Register(subject, record(f"R{version}", "a"), references=used))

    def produce(self) -> None:
        """Send messages with a version that is not deleted; producers stop before the soft deletion."""
        subject, version = self.place()
        found = versions.get(self.small.view, Subject(".", subject), version)
        if found is not None and not found.deleted:
            self.topics[self.chance.choice("tu")].append(found.schema_id)

    def soften(self) -> None:
        subject, version = self.place()
        whole = self.chance.random() < 0.3
        self.attempt(DeleteSubject(subject) if whole else DeleteVersion(subject, version))

    def remove(self) -> None:
        subject, version = self.place()
        whole = self.chance.random() < 0.3
        command = DeleteSubject(subject, True) if whole else DeleteVersion(subject, version, True)
        self.deleted += self.attempt(command)

    def expire(self) -> None:
        """Let retention remove the oldest messages of a topic."""
        messages = self.topics[self.chance.choice("tu")]
        del messages[: self.chance.randint(1, 6)]

    def read(self) -> None:
        """Begin a census, or read one more topic to its end."""
        if self.running is None:
            self.running = (self.now, {})
            return
        unread = [topic for topic in self.topics if topic not in self.running[1]]
        for topic in unread[: self.chance.randint(1, 2)]:
            self.running[1][topic] = set(self.topics[topic])

    def publish(self) -> None:
        if self.running is None or (len(self.running[1]) < len(self.topics) and self.chance.random() < 0.7):
            return
        started, counted = self.running
        for topic, ids in counted.items():
            count(self.small, topic, *sorted(ids))
        missing = len(self.topics) - len(counted)
        finish(self.small, started, id=f"c{started}", ended=self.now, complete=not missing, unread=missing)
        self.running = None

    def check(self) -> None:
        """Fail if a message is stranded: each id has a version, and so has all that it refers to."""
        waiting = [
            found
            for used in {each for messages in self.topics.values() for each in messages}
            for found in [versions.by_id(self.small.view, ".", used)]
        ]
        while waiting:
            found = waiting.pop()
            if found is None:
                raise Stranded
            for each in entities.references(found.row):
                row = versions.get(self.small.view, Subject(".", each.subject), each.version)
                target = Subject(".", each.subject)
                waiting.append(None if row is None else Registered(target, each.version, row))


class Stranded(Exception):
    """Raised for a message whose schema is gone."""


def run_histories(seeds: range, guarded: Defaults = GUARDED) -> tuple[int, int]:
    deleted = refused = 0
    for seed in seeds:
        world = World(random.Random(seed), guarded)
        for _ in range(50):
            world.step()
        deleted, refused = deleted + world.deleted, refused + world.refused
    return deleted, refused


def test_no_history_strands_a_message() -> None:
    deleted, refused = run_histories(range(200))
    assert deleted > 20
    assert refused > 100


def test_without_a_guard_histories_strand_messages() -> None:
    with pytest.raises(Stranded):
        run_histories(range(50), Defaults(compatibility="NONE"))


@pytest.mark.long
def test_none_of_ten_thousand_histories_strands_a_message() -> None:
    deleted, refused = run_histories(range(1_000, 11_000))
    assert deleted > 1_000
    assert refused > 10_000


def test_a_subject_to_which_too_many_versions_refer_is_not_deleted_at_once(
    small: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion_guard, "EXAMINED_MAX", 1)
    doomed = []
    for version, field in enumerate("ab", 1):
        small.place("base", record("R", field))
        reference = Reference("R", "base", version)
        small.place(f"user{version}", record(f"U{version}", "a"), references=(reference,))
        row = versions.get(small.view, Subject(".", "base"), version)
        assert row is not None
        doomed.append(Registered(Subject(".", "base"), version, row))
    finish(small)
    assert "more than 1 versions refer to" in deletion_guard.why_needed(small.view, doomed, DAY, LATER)
    for each in doomed:
        assert "refer to" not in deletion_guard.why_needed(small.view, [each], DAY, LATER)
