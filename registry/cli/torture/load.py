"""Clients that register, read back on every address and delete, and record all of it."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import orjson

from registry.cli.client.client import RegistryClient
from registry.cli.client.resources import LATEST as LATEST_SEGMENT
from registry.cli.client.resources import NotSent, RegistryError, subject_path
from registry.cli.client.transport import Answer, Request

from .history import (
    BY_ID,
    DELETE_SUBJECT,
    DELETE_VERSION,
    FINAL,
    LATEST,
    LIST,
    PING,
    REGISTER,
    VERSION,
    History,
    Operation,
)

_PAUSE_S = 0.1
# Of a header Warning: the response is stale.
_STALE = "110"
# Of such answers the message is kept, cut to so many characters.
_FAILED, _MESSAGE_MAX = 500, 200
# Subjects and schemas that other clients may still join in.
_SHARED_MAX = 12


class Limits(NamedTuple):
    """Durations in seconds, and a number of turns."""

    seconds: float
    # Each client ends after so many turns, if that is sooner.
    turns: int
    staleness_s: float
    # A request that no address answered for so long has failed.
    unavailable_s: float


class Requests:
    """Sends operations to the addresses of one registry, and records them."""

    def __init__(self, clients: Sequence[RegistryClient], history: History) -> None:
        self.addresses = [each.url for each in clients]
        self._clients = dict(zip(self.addresses, clients, strict=True))
        self._history = history
        self._began = time.monotonic()

    def now(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._began

    def only(self, addresses: Sequence[str]) -> Requests:
        """Return these requests with fewer addresses: the same clock, the same history."""
        fewer = copy(self)
        fewer.addresses = list(addresses)
        return fewer

    def operations(self) -> list[Operation]:
        """Return what was recorded so far."""
        return self._history.operations()

    def attempt(self, address: str, op: str, client: str, task: int, **about: Any) -> Operation:
        """Send one operation to one address. ``about``: members of :class:`Operation`."""
        began = self.now()
        request = _request(op, about)
        answered: dict[str, Any] = {}
        try:
            answer = self._clients[address].attempt(request)
            answered = _members_of(op, answer, about)
            answered["stale"] = answer.headers.get("warning", "").startswith(_STALE)
        except NotSent:
            answered = {"sent": False}
        except RegistryError:
            pass
        about |= {"op": op, "client": client, "task": task, "address": address}
        return self._history.add(Operation(began=began, ended=self.now(), **about, **answered))

    def until_answered(
        self, addresses: Sequence[str], op: str, client: str, limit_s: float, **about: Any
    ) -> Operation:
        """Try the addresses in turn until one answers or the time is over; return the last attempt."""
        task, begun, tries = self._history.next_task(), self.now(), 0
        while True:
            made = self.attempt(addresses[tries % len(addresses)], op, client, task, **about)
            tries += 1
            if not made.is_failed or made.ended - begun >= limit_s:
                return made
            if tries % len(addresses) == 0:
                time.sleep(_PAUSE_S)


def _request(op: str, about: dict[str, Any]) -> Request:
    subject, asked = about.get("subject", ""), about.get("asked")
    versions = f"{subject_path(subject)}/versions" if subject else ""
    if op == REGISTER:
        return Request("POST", versions, body={"schema": about["schema"]})
    return {
        DELETE_SUBJECT: lambda: Request("DELETE", subject_path(subject)),
        DELETE_VERSION: lambda: Request("DELETE", f"{versions}/{asked}"),
        BY_ID: lambda: Request("GET", f"/schemas/ids/{asked}"),
        LIST: lambda: Request("GET", versions),
        LATEST: lambda: Request("GET", f"{versions}/{LATEST_SEGMENT}"),
        VERSION: lambda: Request("GET", f"{versions}/{asked}"),
        PING: lambda: Request("GET", "/schemas/types"),
    }[op]()


def _members_of(op: str, answer: Answer, about: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an operation that its answer gives."""
    try:
        found = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, list) and op in (LIST, DELETE_SUBJECT):
        numbers = tuple(each for each in found if isinstance(each, int))
        return {"status": answer.status, "versions": numbers}
    if op == DELETE_VERSION and answer.is_success:
        return {"status": answer.status, "version": about["asked"]}
    members = found if isinstance(found, dict) else {}
    # With an id, a registry may name a version of any subject.
    wanted = ("error_code",) if op == BY_ID else ("id", "version", "error_code")
    numbers_of = {name: members.get(name) for name in wanted}
    text = members.get("schema")
    return {
        "status": answer.status,
        "message": str(members.get("message", ""))[:_MESSAGE_MAX] if answer.status >= _FAILED else "",
        "shown": _canonical(text) if isinstance(text, str) and op != REGISTER else "",
        **{name: number for name, number in numbers_of.items() if isinstance(number, int)},
    }


def _canonical(text: str) -> str:
    """Return a schema without its author's spaces and order of members."""
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONDecodeError:
        return text


def _schema(prefix: str, word: str) -> str:
    """Return a schema that no other call returns; all those of a subject can be read by each other."""
    record = "".join(each if each.isalnum() else "_" for each in prefix.rpartition(":")[2])
    field = {"name": f"f_{word}", "type": "long", "default": 0}
    return _canonical(orjson.dumps({"type": "record", "name": record, "fields": [field]}).decode())


class Board:
    """Subjects and schemas that clients work on at the same time, and that any of them may join in."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        # Every subject that may exist, for the cleanup.
        self.subjects: set[str] = set()
        self._lock = threading.Lock()
        self._open: deque[str] = deque(maxlen=_SHARED_MAX)
        self._schemas: deque[str] = deque(maxlen=_SHARED_MAX)

    def add(self, subject: str, schema: str) -> None:
        """Show what is about to be registered."""
        with self._lock:
            self.subjects.add(subject)
            if subject not in self._open:
                self._open.append(subject)
            self._schemas.append(schema)

    def any_subject(self, chance: random.Random) -> str:
        """Return a subject that somebody works on, empty if there is none."""
        with self._lock:
            return chance.choice(self._open) if self._open else ""

    def any_schema(self, chance: random.Random) -> str:
        """Return a schema that somebody registers, empty if there is none."""
        with self._lock:
            return chance.choice(self._schemas) if self._schemas else ""


class Client:
    """One client; takes turns until the time is over. A seed and a name determine its choices."""

    def __init__(self, name: str, requests: Requests, board: Board, limits: Limits, seed: int) -> None:
        self._name = name
        self._requests = requests
        self._board = board
        self._limits = limits
        self._chance = random.Random(f"{seed} {name}")  # noqa: S311 - repeatable choices
        self._made = 0
        # Reads that are due when staleness is no longer tolerated: time, subject, id.
        self._later: deque[tuple[float, str, int | None]] = deque()

    def run(self, stopped: threading.Event) -> None:
        """Take turns."""
        for turn in self._turns():
            if stopped.is_set() or self._requests.now() > self._limits.seconds:
                return
            turn()
            while self._later and self._later[0][0] < self._requests.now():
                _, subject, schema_id = self._later.popleft()
                self._read_everywhere(subject, schema_id)

    def _turns(self) -> Iterator[Callable[[], None]]:
        """Yield turns: all kinds in equal shares and a random order."""
        deck: list[Callable[[], None]] = []
        for _ in range(self._limits.turns):
            if not deck:
                turns = (self._begin, self._join, self._register_twin)
                deck = [turn for turn in turns for _ in range(2)]
                deck += [self._delete_version, self._delete_subject]
                self._chance.shuffle(deck)
            yield deck.pop()

    def _begin(self) -> None:
        """Register several versions of a new subject, one after another."""
        subject = f"{self._board.prefix}{self._word()}"
        for _ in range(self._chance.randint(1, 3)):
            self._register(subject, self._new_schema())

    def _join(self) -> None:
        """Register a version of a subject that others are writing."""
        subject = self._board.any_subject(self._chance) or f"{self._board.prefix}{self._word()}"
        self._register(subject, self._new_schema())

    def _register_twin(self) -> None:
        """Register the schema of another subject, perhaps while somebody else does."""
        schema = self._board.any_schema(self._chance) or self._new_schema()
        self._register(f"{self._board.prefix}{self._word()}", schema)

    def _delete_version(self) -> None:
        subject = self._board.any_subject(self._chance)
        listed = self._ask(LIST, subject=subject).shown_versions if subject else ()
        if listed:
            self._delete(DELETE_VERSION, subject, asked=self._chance.choice(listed))

    def _delete_subject(self) -> None:
        if subject := self._board.any_subject(self._chance):
            self._delete(DELETE_SUBJECT, subject)

    def _delete(self, op: str, subject: str, **about: Any) -> None:
        if self._ask(op, subject=subject, **about).is_done:
            self._read_back(subject, None)

    def _register(self, subject: str, schema: str) -> None:
        self._board.add(subject, schema)
        done = self._ask(REGISTER, subject=subject, schema=schema)
        if done.is_done:
            self._read_back(subject, done.id)

    def _read_back(self, subject: str, schema_id: int | None) -> None:
        """Read what was acknowledged, through every address: now and when it must be seen."""
        self._read_everywhere(subject, schema_id)
        if self._limits.staleness_s:
            due = self._requests.now() + self._limits.staleness_s
            self._later.append((due, subject, schema_id))

    def _read_everywhere(self, subject: str, schema_id: int | None) -> None:
        addresses = self._requests.addresses
        for first in self._chance.sample(range(len(addresses)), len(addresses)):
            turned = addresses[first:] + addresses[:first]
            if schema_id is not None:
                self._ask(BY_ID, turned, subject=subject, asked=schema_id)
            self._ask(self._chance.choice((LIST, LATEST)), turned, subject=subject)

    def _ask(self, op: str, addresses: Sequence[str] = (), **about: Any) -> Operation:
        """Send an operation, by default to any address first."""
        first = self._chance.randrange(len(self._requests.addresses))
        turned = addresses or self._requests.addresses[first:] + self._requests.addresses[:first]
        return self._requests.until_answered(turned, op, self._name, self._limits.unavailable_s, **about)

    def _word(self) -> str:
        self._made += 1
        return f"{self._name}_{self._made}"

    def _new_schema(self) -> str:
        return _schema(self._board.prefix, self._word())


def read_everything(requests: Requests, subject: str, history: Sequence[Operation], limit_s: float) -> None:
    """Read what a subject should hold through every address, when all has settled.

    ``history``: the operations on this subject. One address also shows each version, because not every
    registry says which one a registration made.
    """
    ids = {each.id for each in history if each.op == REGISTER and each.is_done and each.id is not None}
    known = {each.version for each in history if each.version is not None}
    for address in requests.addresses:
        for number in sorted(ids):
            requests.until_answered([address], BY_ID, FINAL, limit_s, subject=subject, asked=number)
        listed = requests.until_answered([address], LIST, FINAL, limit_s, subject=subject)
        for version in sorted({*listed.shown_versions} - known):
            requests.until_answered([address], VERSION, FINAL, limit_s, subject=subject, asked=version)
        known.update(listed.shown_versions)
