"""The node: log, store, follower and writer of one host, and what it says about itself.

Threads: the caller's event loop, one that follows, one that writes, one that keeps house. Their steps are
plain functions; only :meth:`Node.start` makes threads. A failure that cannot be survived ends the process,
because its parent starts it again, and starting examines everything.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from registry.api.status import NodeStatus
from registry.config import Settings
from registry.domain import digest
from registry.domain.commands import Command, Outcome
from registry.log.embedded import EmbeddedLog, now_ms
from registry.observe.metrics import Gauge, Processes, text
from registry.store.lmdb import Store

from .follower import Follower
from .following import Following
from .given import defaults
from .housekeeping import Housekeeping
from .writer import Answer, Writer, Writing

_log = logging.getLogger(__name__)


class Node:
    """One host's node over the embedded log. Made, started and stopped by the thread of the event loop."""

    def __init__(
        self, settings: Settings, opened: tuple[EmbeddedLog, Store], *, failed: Callable[[str], None]
    ) -> None:
        """``failed`` is called, from any thread, with the reason why the node must end."""
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self.log, self.store = opened
        self._follower = Follower(self.log, self.store)
        self.following = Following(self.log, self.store, self._follower, self._caught_up)
        self._writer = Writer(
            self.log,
            self.store,
            Writing(defaults(settings), settings.id_batch, settings.queue_max),
            follow=self.following.reach,
            deliver=self._deliver,
            now=now_ms,
        )
        self._housekeeping = Housekeeping(self.log, self.store, self.following, settings)
        self._threads: list[threading.Thread] = []
        self._on_started: list[Callable[[], None]] = []
        self.processes = Processes()
        self.restarts: dict[str, int] = {}
        """How often the parent had to start each kind of process again."""

    @property
    def started(self) -> bool:
        """Whether the log was read up to its end once."""
        return self.following.started

    def when_started(self, call: Callable[[], None]) -> None:
        """Have ``call`` called on the event loop once the log was read; at once if it was."""
        if self.started:
            call()
        else:
            self._on_started.append(call)

    def start(self) -> None:
        """Follow, write and keep house."""
        for name, run in (
            ("follow", self.following.run),
            ("write", self._write),
            ("house", self._housekeeping.run),
        ):
            thread = threading.Thread(target=self._guarded, args=(name, run), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Decide what waits, then close log and store. Blocks."""
        self._writer.close()
        self.following.stop()
        self._housekeeping.stop()
        for thread in self._threads:
            thread.join(2.0)
        self._follower.close()
        self.store.close()
        self.log.close()

    def submit(self, command: Command, answer: Answer) -> bool:
        """Queue a command; ``answer`` is called on the event loop. ``False``: too many wait."""
        return self._writer.offer(command, answer)

    def reader_ended(self, number: int) -> None:
        """A reader has gone, perhaps killed in the middle of a view."""
        self.processes.ended(number)
        self._housekeeping.readers_gone()

    def _deliver(self, answers: list[tuple[Answer, Outcome]]) -> None:
        self._loop.call_soon_threadsafe(_answer_all, answers)

    def _caught_up(self) -> None:
        self._loop.call_soon_threadsafe(self._tell_started)

    def _tell_started(self) -> None:
        calls, self._on_started = self._on_started, []
        for call in calls:
            call()

    def _write(self) -> None:
        while self._writer.wait():
            self._writer.step()

    def _guarded(self, name: str, run: Callable[[], Any]) -> None:
        try:
            run()
        except Exception as error:
            _log.exception("the thread that should %s has failed", name)
            self._failed(str(error) or repr(error))

    def status(self) -> NodeStatus:
        """The state at this moment."""
        progress = self._follower.progress()
        state = self.store.state
        reasons = []
        if not self.started:
            left = "unknown" if progress.eta_s is None else f"{progress.eta_s:.0f} s"
            reasons.append(f"reading the log: {progress.applied} of {progress.end} records, left: {left}")
        if self.following.trouble:
            reasons.append(self.following.trouble)
        return NodeStatus(
            role="primary" if self.started else "following",
            epoch=0 if self.started else -1,
            applied=state.applied,
            end=progress.end,
            digest=digest.text(state.digest),
            started=self.started,
            ready=not reasons,
            reasons=reasons,
            records_per_s=progress.records_per_s,
            eta_s=progress.eta_s,
            quarantined=self._housekeeping.quarantined(),
            log=self.log.identity,
        )

    def metrics(self) -> bytes:
        """What all processes of the host have counted, in Prometheus' text format."""
        status, store, writer = self.status(), self.store.stat(), self._writer.stat()
        gauges = [
            Gauge("registrar_log_end_offset", "Offset of the log's next record", status.end),
            Gauge("registrar_applied_offset", "Offset up to which the store holds the log", status.applied),
            Gauge("registrar_ready", "1 while everything can be served", float(status.ready)),
            Gauge("registrar_quarantined_records", "Records that could not be read", status.quarantined),
            Gauge("registrar_store_rows", "Rows in the store", store.rows),
            Gauge("registrar_store_bytes", "Bytes used by the store", store.bytes_used),
            Gauge("registrar_store_map_bytes", "Bytes the store may use", store.map_bytes),
            Gauge("registrar_writes_waiting", "Commands that wait for the writer", writer.waiting),
            Gauge("registrar_writer_batches", "Batches decided", writer.batches, counter=True),
            Gauge("registrar_writer_commands", "Commands decided", writer.commands, counter=True),
            Gauge("registrar_writer_records", "Records appended", writer.records, counter=True),
            Gauge("registrar_schemas_registered", "Versions written", writer.versions, counter=True),
            Gauge(
                "kafka_schema_registry_registered_count",
                "Versions that are there",
                self._housekeeping.versions(),
            ),
            Gauge(
                "kafka_schema_registry_master_slave_role",
                "1 for the primary",
                float(status.role == "primary"),
            ),
        ]
        gauges += [
            Gauge(
                "registrar_restarts", "Processes started again", count, counter=True, labels={"process": kind}
            )
            for kind, count in self.restarts.items()
        ]
        return text(self.processes.total(), gauges)


def _answer_all(answers: list[tuple[Answer, Outcome]]) -> None:
    for answer, outcome in answers:
        answer(outcome)
