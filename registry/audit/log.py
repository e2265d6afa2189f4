"""The audit log of a process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from registry.config.loading import Settings
from registry.domain.log_format.records import Entry

from .entry import FileEntry, RequestEntry, line
from .sinks import FileSink, KafkaSink, Sink, StdoutSink

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
        """Write an entry, or let it wait for its destination; returns at once."""
        self._sink.write(line(entry, datetime.now(UTC)))

    async def close(self, grace_s: float) -> None:
        """Write what waits, for up to ``grace_s`` seconds."""
        await self._sink.close(grace_s)


class AuditLogError(Exception):
    """The audit log's file cannot be written; the text names it."""


def recorder(audit: AuditLog | None) -> Callable[[RequestEntry], None] | None:
    """Return what records requests; ``None`` without an audit log."""
    return None if audit is None else audit.record


def open_audit_log(settings: Settings) -> AuditLog | None:
    """Return the audit log, ``None`` if none is set; must be called on the event loop.

    Raises :class:`AuditLogError`.
    """
    if not settings.audit_log:
        return None
    if settings.audit_log == STDOUT:
        return AuditLog(StdoutSink())
    if settings.audit_log.startswith(KAFKA):
        topic = settings.audit_log.removeprefix(KAFKA)
        return AuditLog(KafkaSink(topic, partial(_KafkaTopic, settings, topic)))
    try:
        return AuditLog(FileSink(settings.audit_log))
    except OSError as error:
        raise AuditLogError(
            f"cannot write the audit log {settings.audit_log}: {error.strerror or error}"
        ) from None


class _KafkaTopic:
    """A topic that is claimed again after each failure, as the log requires."""

    def __init__(self, settings: Settings, name: str) -> None:
        from registry.log.kafka.open_topic import open_unfenced_topic  # noqa: PLC0415 (for this setting only)

        self._log = open_unfenced_topic(settings, name, make=False, allow_delete_policy=True)
        self._claimed = False

    def append(self, entries: Sequence[Entry]) -> int:
        """Append records. Raises :class:`LogError`."""
        if not self._claimed:
            self._log.claim()
        self._claimed = False
        offset = self._log.append(entries)
        self._claimed = True
        return offset

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
