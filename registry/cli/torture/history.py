"""Operations of clients with their answers and times: the only evidence for a verdict on a registry."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

# Kinds of operations. The last one only shows whether an address answers.
REGISTER: Final = "register"
DELETE_SUBJECT: Final = "delete"
DELETE_VERSION: Final = "delete-version"
BY_ID: Final = "by-id"
LIST: Final = "list"
LATEST: Final = "latest"
VERSION: Final = "version"
PING: Final = "ping"

DELETES = (DELETE_SUBJECT, DELETE_VERSION)
WRITES = (REGISTER, *DELETES)
# Reads of what a subject holds.
LOOKS = (LIST, LATEST)
# The client of the reads after the load and all faults.
FINAL: Final = "final"

# The first line of a file of operations.
FORMAT: Final = "registrar-history/1"
_NS = 1_000_000_000
_DIGEST = 16

_NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 404, 429, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request to one address, with the members of its answer that laws are about.

    Times are seconds of one monotonic clock since the run began.
    """

    op: str
    # Who sent it: operations of one client follow each other.
    client: str
    # Operations with one number are attempts at the same thing.
    task: int
    address: str
    began: float
    # The time of the answer, or of the error in place of one.
    ended: float
    subject: str = ""
    # The schema that was registered.
    schema: str = ""
    # The id or version in the request.
    asked: int | None = None
    # 0: no answer.
    status: int = 0
    # False if certainly nothing reached the registry.
    sent: bool = True
    # True if the answer says that it may be old (``Warning: 110``, RFC 9111 section 5.5).
    stale: bool = False
    # Members of the answer; ``shown`` is its schema.
    id: int | None = None
    version: int | None = None
    versions: tuple[int, ...] | None = None
    shown: str = ""
    error_code: int | None = None
    # What it says of an error, cut.
    message: str = ""

    @property
    def is_done(self) -> bool:
        """True if it was acknowledged or answered."""
        return 200 <= self.status < 300

    @property
    def is_missing(self) -> bool:
        """True if the registry said that there is no such thing."""
        return self.status == _NOT_FOUND

    @property
    def is_failed(self) -> bool:
        """True if there is no answer, or one that says nothing about schemas."""
        return self.status in (0, _TOO_MANY) or self.status >= _SERVER_ERROR

    @property
    def is_uncertain(self) -> bool:
        """True if a write may have happened without an acknowledgement."""
        return self.is_failed and self.sent

    @property
    def shown_versions(self) -> tuple[int, ...]:
        """The versions of the subject that its answer shows."""
        if self.versions is not None:
            return self.versions
        return () if self.version is None else (self.version,)

    @property
    def outcome(self) -> str:
        """The result by its answer, in the words of docs/torture.md."""
        if self.is_done:
            return "stale" if self.stale else "ok"
        if self.is_failed:
            return "unknown" if self.sent and self.op in WRITES else "failed"
        return "missing" if self.is_missing and self.op not in WRITES else "refused"

    def as_json(self) -> dict[str, Any]:
        """Return a line of a history as docs/torture.md describes it: times in ns, digests for schemas."""
        text = self.schema or self.shown
        members: dict[str, Any] = {
            "op": self.op,
            "subject": self.subject,
            "address": self.address,
            "began": round(self.began * _NS),
            "ended": round(self.ended * _NS),
            "outcome": self.outcome,
            "status": self.status,
            "code": self.error_code,
            "message": self.message,
            "id": self.asked if self.op == BY_ID else self.id,
            "version": self.asked if self.op in (VERSION, DELETE_VERSION) else self.version,
            "versions": None if self.versions is None else list(self.versions),
            "schema": text and hashlib.sha256(text.encode()).hexdigest()[:_DIGEST],
            "client": self.client,
            "task": self.task,
        }
        return {name: value for name, value in members.items() if value not in (None, "")}


class Fault(NamedTuple):
    """A run of the hook: its address, and its time on the clock of the operations."""

    address: str
    began: float
    ended: float


class FailureKind(NamedTuple):
    """A kind of failed operations, for the summary of a run."""

    # 0: no answer.
    status: int
    code: int | None
    # False if nothing reached the registry.
    sent: bool
    # Where the hook ran meanwhile: ``here``, at the address of the operation; ``elsewhere``; empty: nowhere.
    fault: str


def failure_kind(operation: Operation, faults: Iterable[Fault]) -> FailureKind | None:
    """Return how an operation failed; ``None`` if it did not."""
    if not operation.is_failed:
        return None
    meanwhile = {
        each.address for each in faults if operation.began <= each.ended and each.began <= operation.ended
    }
    fault = "here" if operation.address in meanwhile else "elsewhere" if meanwhile else ""
    return FailureKind(operation.status, operation.error_code, operation.sent, fault)


class History:
    """Operations of all clients in the order in which they ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks = itertools.count(1)
        self._operations: list[Operation] = []

    def next_task(self) -> int:
        """Return the number of a new task."""
        with self._lock:
            return next(self._tasks)

    def add(self, operation: Operation) -> Operation:
        """Append an operation that has ended."""
        with self._lock:
            self._operations.append(operation)
        return operation

    def operations(self) -> list[Operation]:
        """Return a copy."""
        with self._lock:
            return self._operations.copy()
