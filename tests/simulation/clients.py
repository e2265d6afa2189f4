"""Clients of the simulated cluster. Each writes to its own subjects and knows every answer beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from registry.domain.commands import (
    Command,
    DeleteSubject,
    DeleteVersion,
    Done,
    PutConfig,
    Refused,
    Register,
    Unknown,
)
from registry.domain.log_format.records import Record
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.queries import entities, versions
from registry.domain.rows.view import View

from .cluster import Cluster
from .other_writers import texts_of
from .subjects import Ids, OwnSubject
from .world import World

_THINK_S = 0.6


class Client:
    """Sends one request after another, until it is stopped."""

    def __init__(self, world: World, cluster: Cluster, name: str, ids: Ids) -> None:
        self._world = world
        self._cluster = cluster
        self._name = name
        self._ids = ids
        self._made = 0
        self._subjects = [self._fresh(), self._fresh()]
        self._texts: list[str] = []
        # Texts that may be in the log.
        self._tried: set[str] = set()
        # Subjects with a write whose outcome is unknown: they are not used any more.
        self.abandoned: list[OwnSubject] = []
        # Texts of registrations that were reported as not executed, and never requested again.
        self.failed: list[str] = []
        self.acknowledged = 0
        self.stopped = False
        self.idle = False

    @property
    def subjects(self) -> list[OwnSubject]:
        return list(self._subjects)

    def run(self) -> None:
        """Send requests until stopped."""
        while not self.stopped:
            self._world.sleep(self._world.chance.random() * _THINK_S)
            self._world.until(lambda: not self._cluster.night, math.inf)
            index = self._world.chance.randrange(len(self._subjects))
            if self._world.likely(0.4):
                self._read(self._subjects[index])
            else:
                self._write(index)
        self.idle = True

    def succeeds(self) -> bool:
        """Register once more; return true if it was executed."""
        self._subjects.append(self._fresh())
        index = len(self._subjects) - 1
        before = self.acknowledged
        self._write(index)
        return self.acknowledged > before

    def forget(self) -> None:
        """Use other subjects and texts: the log has lost what it had acknowledged."""
        self._subjects = [self._fresh(), self._fresh()]
        self._texts.clear()

    def _fresh(self) -> OwnSubject:
        self._made += 1
        return OwnSubject(f"{self._name}-{self._made}")

    def _write(self, index: int) -> None:
        subject = self._subjects[index]
        command = self._command(subject.name)
        losses = self._cluster.losses
        outcome = self._cluster.submit(command)
        if self._cluster.losses != losses:
            return  # The log may have lost it, with or without its acknowledgment.
        clean = isinstance(outcome, Refused) and str(outcome.code).startswith("5")
        if isinstance(command, Register) and not clean:
            self._tried.add(command.schema)
        if isinstance(outcome, Unknown):
            self.abandoned.append(subject)
            self._subjects[index] = self._fresh()
        elif clean:
            # It was not executed, says the answer: the subject must be as before, which the next reads show.
            if isinstance(command, Register) and command.schema not in self._tried:
                self.failed.append(command.schema)
                self._texts.remove(command.schema)
        else:
            assert isinstance(outcome, Done | Refused), outcome
            subject.took(command, outcome, self._ids)
            self.acknowledged += 1

    def _command(self, subject: str) -> Command:
        chance = self._world.chance
        kind = chance.random()
        if kind < 0.6 or not self._texts:
            if kind < 0.4 or not self._texts:
                self._texts.append(_text(self._name, len(self._texts), chance.randrange(10**6)))
                return Register(subject, self._texts[-1])
            return Register(subject, chance.choice(self._texts))
        if kind < 0.7:
            return DeleteVersion(subject, -1)
        if kind < 0.8:
            return DeleteSubject(subject)
        if kind < 0.9:
            return DeleteSubject(subject, permanent=True)
        return PutConfig(f"{self._name}-config", {"compatibilityGroup": f"{chance.randrange(10**6)}"})

    def _read(self, subject: OwnSubject) -> None:
        """List versions through any node: exactly the acknowledged ones."""
        expected, losses = subject.live(), self._cluster.losses
        with self._cluster.read() as view:
            if view is None or self._cluster.losses != losses:
                return
            found = versions.versions(view, Subject.parse(subject.name), deleted=False)
            seen = {each.version: each.row.schema_id for each in found}
            check_ids(view, subject, self._cluster.partition.records)
        assert seen == expected, f"{subject.name} has {expected}, a confirmed read found {seen}"


def check_ids(view: View, subject: OwnSubject, log: Sequence[Record]) -> None:
    """Check that each id means the schema for which the client got it.

    Another program may take the id after that. Once a deletion has written our record anew, the id means that
    program's schema, whose record is then the older one.
    """
    for number, version in subject.versions.items():
        found = versions.by_id(view, DEFAULT_CONTEXT, version.schema_id)
        text = None if found is None else entities.text(found.row)
        if text != version.text:
            first, *_ = texts_of(version.schema_id, log)
            assert first == version.text, f"{subject.name} got id {version.schema_id} for {number}: {text}"


def _text(client: str, *numbers: int) -> str:
    """Return a schema of this client alone, compatible with all others, in the form that the log keeps."""
    name = f"{client}_" + "_".join(map(str, numbers))
    return f'{{"type":"record","name":"R","doc":"{name}","fields":[]}}'
