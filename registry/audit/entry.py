"""Entries of the audit log: who did what, to which subject, with which outcome.

An entry is one line of JSON in ASCII, so that nothing a client sends can begin a line of its own or control a
terminal. Entries hold no bodies, no headers and no query parameters, so no secrets.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from registry.domain.errors import OUTCOME_UNKNOWN

# The longest text that is kept of what a client has sent.
TEXT_MAX = 1024


class RequestEntry(NamedTuple):
    """A write, or a request that was refused."""

    # Method and path of the operation, as in ``DELETE /subjects/{subject}``.
    operation: str
    request_id: str
    # Empty without authentication, or if it failed.
    principal: str
    # The client's IP address.
    address: str
    # As the client named it; empty if the path has none.
    subject: str
    # Of the answer; 0 if the client disconnected before there was one.
    status: int
    # Confluent's error code; 0 if there was no error.
    error_code: int = 0
    # Offset in the log after the write; ``None`` if nothing was written.
    offset: int | None = None

    @property
    def outcome(self) -> str:
        """``done``, ``refused``, or ``unknown`` if a write may or may not have been done."""
        if self.error_code == OUTCOME_UNKNOWN.code or not self.status:
            return "unknown"
        return "done" if self.status < 400 else "refused"


class FileEntry(NamedTuple):
    """A new content of a file of users, rules, keys or policies."""

    # The setting that names the file.
    setting: str
    path: str
    # Hash of the content, hexadecimal.
    sha256: str


def line(entry: RequestEntry | FileEntry, moment: datetime) -> bytes:
    """Return the entry as a line with its line feed; ``moment`` is in UTC."""
    members: dict[str, Any] = {"time": moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"}
    if isinstance(entry, FileEntry):
        members |= {"event": "file", **entry._asdict()}
    else:
        members |= {"event": "request", **entry._asdict(), "outcome": entry.outcome}
    short = {name: value[:TEXT_MAX] if isinstance(value, str) else value for name, value in members.items()}
    return json.dumps(short, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
