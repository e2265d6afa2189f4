"""A client's knowledge of its own subjects: every answer it must get, since only it writes to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from registry.domain.commands import Command, DeleteSubject, DeleteVersion, Done, Refused, Register


@dataclass
class Version:
    schema_id: int
    text: str
    deleted: bool = False


@dataclass
class OwnSubject:
    """A subject that only one client writes to, as its answers describe it."""

    name: str
    versions: dict[int, Version] = field(default_factory=dict)

    def live(self) -> dict[int, int]:
        """Return the version numbers that readers must see, and their ids."""
        return {number: each.schema_id for number, each in sorted(self.versions.items()) if not each.deleted}

    def took(self, command: Command, answer: Done | Refused, ids: Ids) -> None:
        """Take an answer into account; fail if it is not the right one."""
        match command:
            case Register():
                self._registered(command.schema, answer, ids)
            case DeleteVersion():
                self._deleted_latest(answer)
            case DeleteSubject(permanent=True):
                self._deleted_for_good(answer)
            case DeleteSubject():
                self._deleted(answer)
            case _:
                assert isinstance(answer, Done), answer

    def _registered(self, text: str, answer: Done | Refused, ids: Ids) -> None:
        assert isinstance(answer, Done), answer
        reply = orjson.loads(answer.body)
        number, schema_id = reply["version"], reply["id"]
        same = {known: each for known, each in self.versions.items() if each.text == text}
        live = {known: each.schema_id for known, each in same.items() if not each.deleted}
        # An id that another program has taken, too, may by now stand for that program's schema.
        taken = bool(live) and schema_id not in live.values() and all(map(ids.is_shared, live.values()))
        if live and not taken:
            assert live.get(number) == schema_id, f"{self.name} has {live}, not {number}: {schema_id}"
            return
        assert number == max(self.versions, default=0) + 1, f"{self.name} got version {number} anew"
        former = {each.schema_id for each in same.values()}
        if former != {schema_id}:
            assert all(map(ids.is_shared, former)), f"{self.name} lost its id"
            ids.given(schema_id, text)
        for known, each in same.items():
            if each.schema_id == schema_id:
                del self.versions[known]
        self.versions[number] = Version(schema_id, text)

    def _deleted_latest(self, answer: Done | Refused) -> None:
        live = self.live()
        if not live:
            self._refused(answer, 40402 if self.versions else 40401)
            return
        latest = max(live)
        assert isinstance(answer, Done), answer
        assert answer.body == b"%d" % latest
        self.versions[latest].deleted = True

    def _deleted(self, answer: Done | Refused) -> None:
        live = self.live()
        if not live:
            self._refused(answer, 40404 if self.versions else 40401)
            return
        assert isinstance(answer, Done), answer
        assert orjson.loads(answer.body) == list(live)
        for number in live:
            self.versions[number].deleted = True

    def _deleted_for_good(self, answer: Done | Refused) -> None:
        if not self.versions or self.live():
            self._refused(answer, 40405 if self.versions else 40401)
            return
        assert isinstance(answer, Done), answer
        assert orjson.loads(answer.body) == sorted(self.versions)
        self.versions.clear()

    def _refused(self, answer: Done | Refused, code: int) -> None:
        assert isinstance(answer, Refused), f"{self.name}: {answer} instead of {code}"
        assert answer.code == code, f"{self.name}: {answer} instead of {code}"


class Ids:
    """The ids assigned in the only context, over all clients.

    ``is_shared`` returns true if another program has taken an id, too.
    """

    def __init__(self, is_shared: Callable[[int], bool]) -> None:
        self.is_shared = is_shared
        self._texts: dict[int, str] = {}

    def keep(self, known: set[tuple[int, str]]) -> None:
        """Forget all other ids, which the log has lost; it may still have their texts, with other ids."""
        self._texts = dict(each for each in self._texts.items() if each in known)

    def given(self, schema_id: int, text: str) -> None:
        """Record that a new text got an id, which no other text may have."""
        known = self._texts.setdefault(schema_id, text)
        assert known == text, f"id {schema_id} was given to {known} and to {text}"
