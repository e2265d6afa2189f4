"""The deletion guard: when it refuses, what it says, and that no history of writes strands a message."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import msgspec
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
from registry.domain.log_format import usage as stored_usage
from registry.domain.lookup.usage import VersionUsage
from registry.domain.model import Reference, Subject
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import Defaults
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
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


# The schema of a message: its id, or its guid.
Name = int | str


def count(small: SmallRegistry, source: str, *names: Name, **members: object) -> None:
    uses = [
        ["value", "guid" if isinstance(each, str) else "id", each, 1_500, 60, 1, 2, True] for each in names
    ]
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


# The topics, and the contexts whose schemas their messages name.
CONTEXTS = {"t": ".", "u": ".c"}


class World:
    """A registry and topics whose messages name its schemas, with a history that ``chance`` decides.

    The other context has a subject of the same name, and ids of its own.
    """

    def __init__(self, chance: random.Random, guarded: Defaults = GUARDED) -> None:
        self.chance = chance
        self.small = SmallRegistry(guarded)
        # The schemas of each topic's messages, oldest first.
        self.topics: dict[str, list[Name]] = {topic: [] for topic in CONTEXTS}
        # A census that is running: when it began, and what it has counted so far.
        self.running: tuple[int, dict[str, set[Name]]] | None = None
        self.deleted = self.refused = self.emptied = 0

    @property
    def now(self) -> int:
        return 1_000 + len(self.small.log)

    def step(self) -> None:
        steps = {
            self.register: 2, self.produce: 4, self.soften: 3, self.remove: 4, self.empty: 1, self.expire: 1,
            self.read: 3, self.publish: 3,
        }  # fmt: skip
        self.chance.choices(list(steps), list(steps.values()))[0]()
        # Every record takes one millisecond, and so does every step.
        self.small.append(b'{"keytype":"NOOP","magic":0}', None)
        self.check()

    def place(self) -> tuple[str, int]:
        """Return a subject, and a version that it has, if there is one."""
        subject = self.chance.choice(("a", "b", ":.c:a"))
        found = versions.versions(self.small.view, Subject.parse(subject), deleted=True)
        return subject, self.chance.choice([each.version for each in found] or [1])

    def attempt(self, command: Command) -> bool:
        self.small.defaults = replace(self.small.defaults, now=self.now)
        try:
            self.small.submit(command)
        except RegistryError as error:
            self.refused += error.code == 40984
            return False
        return True

    def register(self) -> None:
        subject, number = self.place()[0], self.chance.randint(1, 3)
        used = [Reference("N", *self.place())] if self.chance.random() < 0.1 else []
        self.attempt(Register(subject, record(f"R{number}", "a"), references=used))

    def produce(self) -> None:
        """Send messages with a version that is not deleted; producers stop before the soft deletion."""
        topic, (name, version) = self.chance.choice(list(self.topics)), self.place()
        subject = Subject(CONTEXTS[topic], Subject.parse(name).name)
        found = versions.get(self.small.view, subject, version)
        if found is not None and not found.deleted:
            guid = str(UUID(bytes=found.md5))
            self.topics[topic].append(guid if self.chance.random() < 0.2 else found.schema_id)

    def soften(self) -> None:
        subject, version = self.place()
        whole = self.chance.random() < 0.3
        self.attempt(DeleteSubject(subject) if whole else DeleteVersion(subject, version))

    def remove(self) -> None:
        subject, version = self.place()
        whole = self.chance.random() < 0.3
        command = DeleteSubject(subject, True) if whole else DeleteVersion(subject, version, True)
        self.deleted += self.attempt(command)

    def empty(self) -> None:
        """Begin an import, which deletes what is soft-deleted in its scope, and end it."""
        scope = self.chance.choice(("a", "b", ":.c:"))
        if self.attempt(PutMode(scope, "IMPORT", "IMPORT")):
            self.emptied += any(value is None for _, value, *_ in self.small.last)
            self.attempt(PutMode(scope, None, ""))

    def expire(self) -> None:
        """Let retention remove the oldest messages of a topic."""
        messages = self.topics[self.chance.choice(list(self.topics))]
        del messages[: self.chance.randint(1, 4)]

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
        for topic, names in counted.items():
            count(self.small, topic, *sorted(names, key=str), context=CONTEXTS[topic])
        missing = len(self.topics) - len(counted)
        finish(self.small, started, id=f"c{started}", ended=self.now, complete=not missing, unread=missing)
        self.running = None

    def check(self) -> None:
        """Fail if a message is stranded: its schema has a version, and so has all that it refers to."""
        used = {(CONTEXTS[topic], each) for topic, messages in self.topics.items() for each in messages}
        waiting = [self.version(*each) for each in used]
        while waiting:
            found = waiting.pop()
            if found is None:
                raise Stranded
            for each in entities.references(found.row):
                target = Subject.within(found.subject.context, each.subject)
                row = versions.get(self.small.view, target, each.version)
                waiting.append(None if row is None else Registered(target, each.version, row))

    def version(self, context: str, name: Name) -> Registered | None:
        if isinstance(name, int):
            return versions.by_id(self.small.view, context, name)
        return next(versions.of_content(self.small.view, context, UUID(name).bytes), None)


class Stranded(Exception):
    """Raised for a message whose schema is gone."""


def run_histories(seeds: range, guarded: Defaults = GUARDED) -> tuple[int, int, int]:
    """Return how many versions or subjects were deleted, deletions refused, and scopes emptied."""
    totals = 0, 0, 0
    for seed in seeds:
        world = World(random.Random(seed), guarded)
        for _ in range(60):
            world.step()
        deleted, refused, emptied = totals
        totals = deleted + world.deleted, refused + world.refused, emptied + world.emptied
    return totals


def test_no_history_strands_a_message() -> None:
    deleted, refused, emptied = run_histories(range(150))
    assert deleted > 20
    assert refused > 100
    assert emptied


def test_without_a_guard_histories_strand_messages() -> None:
    with pytest.raises(Stranded):
        run_histories(range(50), Defaults(compatibility="NONE"))


def ignore_uses(view: View, found: Registered) -> Search[VersionUsage]:
    yield
    return VersionUsage(found, [], [])


def complete_census(view: View) -> stored_usage.Census | None:
    found = stored_usage.census(view)
    return None if found is None else msgspec.structs.replace(found, complete=True)


@pytest.mark.parametrize(
    ("part", "broken"),
    [
        ("usage.find_usage", ignore_uses),
        ("usage.deleted_at", lambda *_: -1),
        ("stored", SimpleNamespace(census=complete_census)),
    ],
)
def test_histories_strand_messages_without_a_part_of_the_guard(
    monkeypatch: pytest.MonkeyPatch, part: str, broken: object
) -> None:
    monkeypatch.setattr(f"{deletion_guard.__name__}.{part}", broken)
    with pytest.raises(Stranded):
        run_histories(range(200))


@pytest.mark.long
@pytest.mark.parametrize("thousand", range(1, 11))
def test_none_of_ten_thousand_histories_strands_a_message(thousand: int) -> None:
    deleted, refused, emptied = run_histories(range(thousand * 1_000, (thousand + 1) * 1_000))
    assert deleted > 100
    assert refused > 1_000
    assert emptied > 10


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
