"""Requests of clients with their answers and times: the checker's only evidence."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(Enum):
    """The kind of a request. Reads come last."""

    REGISTER = "register"
    DELETE = "delete"
    SET_CONFIG = "set config"
    DELETE_CONFIG = "delete config"
    SET_MODE = "set mode"
    DELETE_MODE = "delete mode"
    BY_ID = "by id"
    LATEST = "latest"
    LIST = "list"
    CONFIG = "config"
    MODE = "mode"
    FEED = "feed"


WRITES = (
    Kind.REGISTER, Kind.DELETE, Kind.SET_CONFIG, Kind.DELETE_CONFIG, Kind.SET_MODE, Kind.DELETE_MODE,
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request to one node. Times are seconds of one monotonic clock."""

    kind: Kind
    # The number of the node that it was sent to.
    node: int
    subject: str
    began: float
    ended: float
    # 0: no answer.
    status: int = 0
    # The JSON of the answer.
    answer: Any = None
    # The schema that was registered, or that the requested id stands for.
    schema: str = ""
    # The requested id.
    schema_id: int = 0
    # The level or mode to set.
    value: str = ""
    # For a read of the past: the offset of the last record that counts.
    at: int | None = None
    # The offset after which a page of the feed begins.
    after: int = -1
    # ``X-Registry-Offset``.
    offset: int | None = None
    # True if the node warned that the answer may be stale.
    warning: bool = False
    # ``X-Request-ID`` of the answer.
    request_id: str = ""
    # True if any of it may have reached the node.
    sent: bool = True

    @property
    def code(self) -> int:
        """The error code of the answer; 0 if there is none."""
        return self.answer.get("error_code", 0) if isinstance(self.answer, dict) else 0

    @property
    def done(self) -> bool:
        return 200 <= self.status < 300

    @property
    def uncertain(self) -> bool:
        """True for a write whose outcome the client cannot know."""
        return self.sent and (
            self.status == 0 or self.code == 50002 or (self.status >= 500 and not self.code)
        )

    @property
    def failed(self) -> bool:
        """True if there is neither an answer nor a refusal that depends on the schemas."""
        return self.status == 0 or self.status >= 500


@dataclass
class History:
    """Requests as they ended, from all threads; ``digests``: reports of nodes about their stores."""

    requests: list[Request] = field(default_factory=list)
    # Node, applied offset, digest.
    digests: list[tuple[int, int, str]] = field(default_factory=list)
    # Requests that no node accepted, after all retries.
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
        """Return the requests of these kinds, in the order in which they ended."""
        with self._lock:
            return [each for each in self.requests if each.kind in kinds]
