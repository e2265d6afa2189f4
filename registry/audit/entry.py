"""Entries of the audit log: who did what, to which subject, with which outcome.

An entry is one line of JSON in ASCII, so that nothing a client sends can begin a line of its own or control a
terminal. Entries hold no headers, and of bodies and queries only what the operation is done to and how, so no
secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from registry.domain.errors import OUTCOME_UNKNOWN

# The longest text that is kept of what a client has sent.
TEXT_MAX = 1024
# Members that are left out if they say nothing.
_USUAL: Mapping[str, Any] = {"target": {}, "options": {}, "requests": 1, "kind": ""}
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=dict).encode


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
    # What else the request names: other parts of the path, and of the body what is changed.
    target: Mapping[str, Any] = MappingProxyType({})
    # Parameters of the query, such as ``permanent``.
    options: Mapping[str, Any] = MappingProxyType({})
    # False if nothing is known of the client but its address.
    admitted: bool = True
    # Number of requests like this one that the entry stands for.
    requests: int = 1
    # Of the principal: ``user``, ``token`` or ``cert``; empty without authentication.
    kind: str = ""

    @property
    def outcome(self) -> str:
        """``done``, ``refused``, or ``unknown`` if a write may or may not have been done."""
        if self.error_code == OUTCOME_UNKNOWN.code or not self.status:
            return "unknown"
        return "refused" if self.status >= 400 or self.error_code else "done"


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
        del members["admitted"]
        for name, usual in _USUAL.items():
            if members[name] == usual:
                del members[name]
    short = {name: value[:TEXT_MAX] if isinstance(value, str) else value for name, value in members.items()}
    return _encode(short).encode("ascii") + b"\n"
