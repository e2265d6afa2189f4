"""The audit log of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from registry.base.config.settings import Settings
from registry.security.watched_file import FileError

from .entry import FileEntry, RequestEntry, line
from .kafka_sink import KafkaSink, KafkaTopic
from .refusals import Refusals
from .sinks import File, Sink, Stdout
from .waiting import WaitingSink

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
