"""The audit log of a process, and its entries: who did what, to which subject, with which outcome.

An entry is one line of JSON in ASCII, so that nothing a client sends can begin a line of its own or control a
terminal. Entries hold no headers, and of bodies and queries only what the operation is done to and how, so no
secrets.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple

from registry.base.config.settings import Settings
from registry.domain.errors import OUTCOME_UNKNOWN
from registry.security.watched_file import CHECK_EVERY_S, FileError, WatchedFile

from .kafka_sink import KafkaSink, KafkaTopic
from .sinks import File, Sink, Stdout, WaitingSink

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


def time_text(moment: datetime) -> str:
    """Return a moment in UTC as entries have it; such texts are in the order of time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def line(entry: RequestEntry | FileEntry, moment: datetime) -> bytes:
    """Return the entry as a line with its line feed; ``moment`` is in UTC."""
    members: dict[str, Any] = {"time": time_text(moment)}
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


# Interval between two entries of an address, at least.
EVERY_S = 1.0
# Addresses with entries of their own; the requests of further ones are counted together.
ADDRESSES_MAX = 100
OTHERS = "*"


class Refusals:
    """Passes on the first refusal of an address, and then each second how many there were, with the last.

    So a client without credentials can neither fill a disk nor hide: no refusal is left out of the count.
    """

    def __init__(
        self, record: Callable[[RequestEntry], None], later: Callable[[float, Callable[[], None]], Any]
    ) -> None:
        """``later``: calls a function after so many seconds."""
        self._record = record
        self._later = later
        # By address: the last of the refusals since its last entry, which stands for all of them.
        self._counted: dict[str, RequestEntry | None] = {}

    def add(self, entry: RequestEntry) -> None:
        """Record a refusal, or count it."""
        address = entry.address
        if address not in self._counted and len(self._counted) >= ADDRESSES_MAX:
            address = OTHERS
        if address not in self._counted:
            self._counted[address] = None
            self._record(entry)
            self._later(EVERY_S, lambda: self._pass_on(address))
            return
        before = self._counted[address]
        self._counted[address] = entry._replace(
            address=address, requests=1 if before is None else before.requests + 1
        )

    def close(self) -> None:
        """Record what was counted."""
        for address in self._counted:
            self._record_counted(address)

    def _pass_on(self, address: str) -> None:
        if self._counted[address] is None:
            del self._counted[address]
        else:
            self._record_counted(address)
            self._later(EVERY_S, lambda: self._pass_on(address))

    def _record_counted(self, address: str) -> None:
        entry, self._counted[address] = self._counted[address], None
        if entry is not None:
            self._record(entry)


STDOUT = "stdout"
KAFKA = "kafka:"


class AuditLog:
    """Writes entries to where the setting ``audit_log`` wants them."""

    def __init__(self, sink: Sink) -> None:
        """Must be called on the event loop."""
        self._sink = sink
        self._refusals = Refusals(self._write, asyncio.get_running_loop().call_later)

    @property
    def lost_count(self) -> int:
        """Number of entries that could not be written."""
        return self._sink.lost_count

    def record(self, entry: FileEntry) -> None:
        """Write an entry, or let it wait for its destination; must be called on the event loop."""
        self._write(entry)

    def record_request(self, entries: Sequence[RequestEntry]) -> Awaitable[None] | None:
        """Write the entries of a request; return what its answer has to wait for.

        Must be called on the event loop.
        """
        if not entries[0].admitted:
            self._refusals.add(entries[0])
            return None
        for each in entries:
            self._write(each, awaited=True)
        return self._sink.wait_written()

    async def close(self, grace_s: float) -> None:
        """Write what waits, for up to ``grace_s`` seconds."""
        self._refusals.close()
        await self._sink.close(grace_s)

    def _write(self, entry: RequestEntry | FileEntry, *, awaited: bool = False) -> None:
        self._sink.write(line(entry, datetime.now(UTC)), awaited=awaited)


def recorder(audit: AuditLog | None) -> Callable[[Sequence[RequestEntry]], Awaitable[None] | None] | None:
    """Return what records requests; ``None`` without an audit log."""
    return None if audit is None else audit.record_request


def open_audit_log(settings: Settings) -> AuditLog | None:
    """Return the audit log, ``None`` if none is set; must be called on the event loop.

    Raises :class:`FileError`.
    """
    if not settings.audit_log:
        return None
    if settings.audit_log == STDOUT:
        return AuditLog(WaitingSink(Stdout(), required=settings.audit_required))
    if settings.audit_log.startswith(KAFKA):
        topic = settings.audit_log.removeprefix(KAFKA)
        return AuditLog(KafkaSink(topic, KafkaTopic(settings, topic)))
    return AuditLog(WaitingSink(_file(settings.audit_log), required=settings.audit_required))


def check_file(settings: Settings) -> None:
    """Raise :class:`FileError` if the audit log is a file that cannot be written."""
    if settings.audit_log not in ("", STDOUT) and not settings.audit_log.startswith(KAFKA):
        _file(settings.audit_log).close()


def _file(path: str) -> File:
    try:
        return File(path)
    except OSError as error:
        raise FileError(f"cannot write the audit log {path}: {error.strerror or error}") from None


class FileChanges:
    """Records the content of each file at the start, and each new content."""

    def __init__(self, settings: Settings, audit: AuditLog) -> None:
        self._audit = audit
        self._watched: list[WatchedFile[str]] = []
        files = {
            "users": settings.users,
            "rules": settings.rules,
            "jwt_jwks": "" if settings.jwt_jwks_is_url else settings.jwt_jwks,
            "tls_client_ca": settings.tls_client_ca,
            "policies": settings.policies,
        }
        for name, path in files.items():
            if path:
                self._add(name, path)

    async def watch(self, every_s: float = CHECK_EVERY_S) -> None:
        """Watch the files until cancelled."""
        await asyncio.gather(*(each.watch(every_s) for each in self._watched))

    def _add(self, name: str, path: str) -> None:
        def record() -> None:
            self._audit.record(FileEntry(name, path, file.value))

        with suppress(FileError):  # those who use the file refuse to start
            file = WatchedFile(path, _hash, changed=record, quiet=True)
            record()
            self._watched.append(file)


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
