"""What clients asked and were told, and when; the checker's only witness of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(Enum):
    """What was asked. Reads come last."""

    REGISTER = "register"
    DELETE = "delete"
    BY_ID = "by id"
    LATEST = "latest"
    LIST = "list"


WRITES = (Kind.REGISTER, Kind.DELETE)


@dataclass(frozen=True)
class Request:
    """One request to one node. Times are seconds of one monotonic clock."""

    kind: Kind
    # Whom it was sent to.
    node: int
    subject: str
    began: float
    ended: float
    # 0: no answer came.
    status: int = 0
    # The JSON of the answer.
    answer: Any = None
    # What was registered, or is behind the id that was asked for.
    schema: str = ""
    # The id that was asked for.
    schema_id: int = 0
    # ``X-Registry-Offset``.
    offset: int | None = None
    # The node said that the answer may be old.
    warning: bool = False
    # Whether anything of it may have reached the node.
    sent: bool = True

    @property
    def code(self) -> int:
        """The error code of the answer; 0 when there is none."""
        return self.answer.get("error_code", 0) if isinstance(self.answer, dict) else 0

    @property
    def done(self) -> bool:
        return 200 <= self.status < 300

    @property
    def uncertain(self) -> bool:
        """A write of which the client cannot know whether it was done."""
        return self.sent and (
            self.status == 0 or self.code == 50002 or (self.status >= 500 and not self.code)
        )

    @property
    def failed(self) -> bool:
        """Neither an answer nor a refusal that says something about the schemas."""
        return self.status == 0 or self.status >= 500


@dataclass
class History:
    """Requests as they ended, from all threads; ``digests``: what nodes said of their stores."""

    requests: list[Request] = field(default_factory=list)
    # Node, applied offset, digest.
    digests: list[tuple[int, int, str]] = field(default_factory=list)
    # What no node took, however often it was tried.
    given_up: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, request: Request) -> Request:
        with self._lock:
            self.requests.append(request)
        return request

    def digest(self, node: int, applied: int, digest: str) -> None:
        with self._lock:
            self.digests.append((node, applied, digest))

    def of(self, *kinds: Kind) -> list[Request]:
        """The requests of these kinds, as they ended."""
        with self._lock:
            return [each for each in self.requests if each.kind in kinds]
