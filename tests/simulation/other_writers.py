"""Other programs that write to the topic, as none should: a Confluent primary, Karapace, a script.

They read the topic, choose the next id, and append a moment later, without any claim: neither a fence nor a
sequence number stops them. They keep to their own subjects. Some of what they write follows no protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from registry.domain.log_format import records, values
from registry.domain.log_format.records import NOOP_KEY, Entry, Record
from registry.domain.model import Subject

from .brokers import Brokers
from .world import World

# Means: between two writes, and between reading the topic and appending.
_PAUSE_S, _MOMENT_S = 1.0, 0.01
_SUBJECTS = 3
# Records that no registry writes, or none of today.
_STRANGE = (
    Entry(b"", b""),
    Entry(b"no key", b"{"),
    Entry(b'{"keytype":"LATER","magic":9}', b"{}"),
    Entry(b'{"keytype":"NOOP","magic":0,"registrar":"later"}', b"{}"),
    Entry(b'{"keytype":"SCHEMA","subject":"x0","version":-1,"magic":1}', b"{}"),
    Entry(b'{"keytype":"CONFIG","subject":"x1","magic":0}', b'{"compatibilityLevel":7}'),
)


class OtherWriter:
    """A program that appends beside the primary."""

    def __init__(self, world: World, brokers: Brokers, await_append: Callable[[], None]) -> None:
        """``await_append`` returns once a node appends, or after a while if none does."""
        self._world = world
        self._brokers = brokers
        self._await_append = await_append
        self._made = 0

    def run(self, over: Callable[[], bool], rests: Callable[[], bool]) -> None:
        """Write again and again until it is ``over``, but not while it ``rests``."""
        chance = self._world.chance
        while True:
            self._world.sleep(chance.expovariate(1 / _PAUSE_S))
            entry = chance.choice((self._version, self._version, self._deletion, self._strange))()
            if self._world.likely(0.5):
                self._await_append()
            else:
                self._world.sleep(chance.expovariate(1 / _MOMENT_S))
            if over():
                return
            if not self._brokers.deleted and not rests():
                self._brokers.append_unclaimed([entry])

    def _version(self) -> Entry:
        """Return a new version: of a new schema with the next id, or of a known one with its id."""
        subject, known = self._subject(), ids_in(self._records())
        if known and self._world.likely(0.2):
            schema_id, text = self._world.chance.choice(sorted(known.items()))
        else:
            self._made += 1
            schema_id, text = max(known, default=0) + 1, _text(self._made)
        number = max(self._numbers(subject), default=0) + 1
        key = records.schema_key(subject, number)
        return Entry(key, values.schema_value(subject, number, schema_id, text))

    def _deletion(self) -> Entry:
        """Return the deletion of a subject; or of a version, for good, as Confluent or as Karapace does."""
        subject = self._subject()
        numbers = self._numbers(subject)
        if not numbers:
            return Entry(NOOP_KEY, None)
        if self._world.likely(0.5):
            value = values.delete_subject_value(subject, max(numbers))
            return Entry(records.delete_subject_key(subject), value)
        key = records.schema_key(subject, self._world.chance.choice(sorted(numbers)))
        return Entry(key, self._world.chance.choice((None, b"")))

    def _strange(self) -> Entry:
        return self._world.chance.choice(_STRANGE)

    def _subject(self) -> Subject:
        return Subject.parse(f"x{self._world.chance.randrange(_SUBJECTS)}")

    def _records(self) -> list[Record]:
        return self._brokers.partition.records[: self._brokers.visible]

    def _numbers(self, subject: Subject) -> set[int]:
        """Return the numbers of all versions that a subject ever had."""
        found = (version_in(each) for each in self._records())
        return {each["version"] for each in found if each is not None and each["subject"] == subject.name}


def version_in(record: Record | Entry) -> dict[str, Any] | None:
    """Return the value of a version's record; ``None`` if it is no such record, or cannot be read."""
    if b'"SCHEMA"' not in (record.key or b"") or not record.value:
        return None
    value: dict[str, Any] = orjson.loads(record.value)
    return value if "id" in value else None


def registered_in(found: Iterable[Record]) -> dict[str, int]:
    """Return the schemas of all versions, each with its id."""
    known = (version_in(each) for each in found)
    return {each["schema"]: each["id"] for each in known if each is not None}


def texts_of(schema_id: int, found: Iterable[Record]) -> list[str]:
    """Return the schemas that had an id, the first one first: several, if programs took the same id."""
    known = (each for each in map(version_in, found) if each is not None and each["id"] == schema_id)
    return list(dict.fromkeys(each["schema"] for each in known))


def ids_in(found: Iterable[Record]) -> dict[int, str]:
    """Return all ids, each with the schema that had it first."""
    known: dict[int, str] = {}
    for version in map(version_in, found):
        if version is not None:
            known.setdefault(version["id"], version["schema"])
    return known


def _text(number: int) -> str:
    return f'{{"type":"record","name":"R","doc":"theirs-{number}","fields":[]}}'
