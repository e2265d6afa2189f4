"""The audit log of a process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from registry.config.loading import Settings
from registry.security.watched_file import FileError

from .entry import FileEntry, RequestEntry, line
from .kafka_sink import KafkaSink, KafkaTopic
from .sinks import FileSink, Sink, StdoutSink

STDOUT = "stdout"
KAFKA = "kafka:"


class AuditLog:
    """Writes entries to where the setting ``audit_log`` wants them."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    @property
    def lost(self) -> int:
        """Number of entries that could not be written."""
        return self._sink.lost

    def record(self, entry: RequestEntry | FileEntry) -> None:
        """Write an entry, or let it wait for its destination; must be called on the event loop."""
        self._sink.write(line(entry, datetime.now(UTC)))

    async def close(self, grace_s: float) -> None:
        """Write what waits, for up to ``grace_s`` seconds."""
        await self._sink.close(grace_s)


def recorder(audit: AuditLog | None) -> Callable[[RequestEntry], None] | None:
    """Return what records requests; ``None`` without an audit log."""
    return None if audit is None else audit.record


def open_audit_log(settings: Settings) -> AuditLog | None:
    """Return the audit log, ``None`` if none is set; must be called on the event loop.

    Raises :class:`FileError`.
    """
    if not settings.audit_log:
        return None
    if settings.audit_log == STDOUT:
        return AuditLog(StdoutSink())
    if settings.audit_log.startswith(KAFKA):
        topic = settings.audit_log.removeprefix(KAFKA)
        return AuditLog(KafkaSink(topic, KafkaTopic(settings, topic)))
    return AuditLog(_file_sink(settings.audit_log))


def check_file(settings: Settings) -> None:
    """Raise :class:`FileError` if the audit log is a file that cannot be written."""
    if settings.audit_log not in ("", STDOUT) and not settings.audit_log.startswith(KAFKA):
        _file_sink(settings.audit_log).release()


def _file_sink(path: str) -> FileSink:
    try:
        return FileSink(path)
    except OSError as error:
        raise FileError(f"cannot write the audit log {path}: {error.strerror or error}") from None
