"""The audit log of a process, with entries for refused requests and changed files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from registry.base.config.settings import Settings
from registry.security.watched_file import CHECK_EVERY_S, FileError, WatchedFile

from .entry import FileEntry, RequestEntry, line
from .kafka_sink import KafkaSink, KafkaTopic
from .sinks import File, Sink, Stdout, WaitingSink

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
    def lost(self) -> int:
        """Number of entries that could not be written."""
        return self._sink.lost

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
        return self._sink.written()

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
