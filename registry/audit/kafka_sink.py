"""A Kafka topic as the destination of the audit log."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from registry.base.config.settings import Settings
from registry.base.observe.logs import Throttled
from registry.domain.log_format.records import Entry
from registry.log.contract import ForeignLog, LogError, Rejected

if TYPE_CHECKING:
    from registry.log.kafka.log import KafkaLog

# Lines and bytes that wait for Kafka.
LINES_MAX = 10_000
BYTES_MAX = 16 << 20
# Lines and bytes that are sent at once: a batch that topics take by default, even with one long line more.
SENT_LINES_MAX = 500
SENT_BYTES_MAX = 512 << 10
RETRY_S = 1.0
_log = logging.getLogger(__name__)


class Topic(Protocol):
    """The part of a log in Kafka that a sink needs. Its calls block; ``close`` may interrupt ``append``."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Append records. Raises :class:`LogError`; :class:`Rejected` if another try would fail as well."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class KafkaSink:
    """Sends lines to a topic; while the brokers cannot be reached, a bounded number of them waits.

    A line is sent again if its outcome is unknown, so it may be there twice. Lines that fail together are
    sent one by one, so that one that the brokers reject is lost alone.
    """

    def __init__(self, name: str, topic: Topic, retry_s: float = RETRY_S) -> None:
        """``name``: that of the topic. Must be called on the event loop."""
        self.lost_count = 0
        self._name = name
        self._topic = topic
        self._retry_s = retry_s
        self._failures = Throttled(_log)
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(LINES_MAX)
        # Lines that wait or are being sent, and their bytes.
        self._lines = self._bytes = 0
        self._closing = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def write(self, line: bytes, *, awaited: bool = False) -> None:
        """Queue one line."""
        if self._waiting.full() or self._bytes + len(line) > BYTES_MAX:
            self._lose(1, "too many entries wait")
            return
        self._lines += 1
        self._bytes += len(line)
        self._waiting.put_nowait(line)

    async def wait_written(self) -> None:
        """Wait for nothing: brokers delay no answer."""

    async def close(self, grace_s: float) -> None:
        """Send what waits, for up to ``grace_s`` seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._waiting.join(), grace_s)
        self._closing = True
        self._task.cancel()
        await asyncio.to_thread(self._topic.close)
        with suppress(asyncio.CancelledError):
            await self._task
        if self._lines:
            self._lose(self._lines, "the process ends")

    async def _run(self) -> None:
        while True:
            lines = [await self._waiting.get()]
            size = len(lines[0])
            while len(lines) < SENT_LINES_MAX and size < SENT_BYTES_MAX and not self._waiting.empty():
                lines.append(self._waiting.get_nowait())
                size += len(lines[-1])
            if not await self._try_send(lines):
                for line in lines:
                    await self._send(line)
            self._lines -= len(lines)
            self._bytes -= size
            for _ in lines:
                self._waiting.task_done()

    async def _send(self, line: bytes) -> None:
        """Send one line until the brokers have taken or rejected it."""
        while not await self._try_send([line]):  # noqa: ASYNC110 (nothing announces that brokers are back)
            await asyncio.sleep(self._retry_s)

    async def _try_send(self, lines: Sequence[bytes]) -> bool:
        """Return true if nothing is left to do: the lines were taken, or a single one was rejected."""
        try:
            await asyncio.to_thread(self._topic.append, [Entry(b"", each.rstrip(b"\n")) for each in lines])
        except Rejected as error:
            if len(lines) > 1:
                return False
            self._lose(1, str(error))
        except LogError as error:
            if not self._closing:
                self._failures.error(
                    "cannot send audit entries to the topic %s: %s; retrying", self._name, error
                )
            return False
        except Exception:
            _log.exception("cannot send audit entries to the topic %s; retrying", self._name)
            return False
        return True

    def _lose(self, count: int, reason: str) -> None:
        self.lost_count += count
        self._failures.error(
            "the topic %s did not accept %d audit entries: %s; %d lost in total",
            self._name, count, reason, self.lost_count,
        )  # fmt: skip


class KafkaTopic:
    """The topic ``name`` of the settings' brokers, which is opened and claimed when that is necessary."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._log: KafkaLog | None = None
        self._claimed = self._closed = False
        self._changing = threading.Lock()

    def append(self, entries: Sequence[Entry]) -> None:
        """Append records, see :class:`Topic`."""
        log = self._log or self._open_log()
        try:
            if not self._claimed:
                log.claim()
            self._claimed = False
            # Each entry stands alone, so a batch may end after any of them.
            log.append(entries, range(1, len(entries)))
            self._claimed = True
        except ForeignLog:  # deleted and created again, which this connection would refuse for ever
            self._release()
            raise

    def close(self) -> None:
        """Close the connections, for good."""
        self._closed = True
        self._release()

    def _open_log(self) -> KafkaLog:
        from registry.log.kafka.open_topic import open_unfenced_topic  # noqa: PLC0415 (for this setting only)

        log = open_unfenced_topic(self._settings, self._name, make=False, allow_delete_policy=True)
        with self._changing:
            self._log, self._claimed = log, False
        if self._closed:
            self._release()
        return log

    def _release(self) -> None:
        with self._changing:
            log, self._log = self._log, None
        if log is not None:
            log.close()
