"""Builds of snapshots and censuses on this host, in separate processes, so serving is not slowed down."""

from __future__ import annotations

import logging
import math
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import orjson

from registry.base.config.settings import Settings
from registry.base.processes.child_process import kill_group, start_module
from registry.domain.commands import Command, DeleteUsage, Done, Outcome, PutCensus, PutUsage
from registry.domain.log_format import usage
from registry.domain.pending_command import CommandRequest, PendingCommand, Submit
from registry.domain.queries.by_subject import subjects
from registry.domain.rows.view import Rows
from snapshots.catalogue.catalogue import Catalogue, Entry, builder_name
from snapshots.census.topics import infer_contexts, stale_sources
from snapshots.format.manifest import is_id

PAUSE_S = 2.0  # Seconds before the second attempt at a request; four times as long before each further one.
_END_S = 2.0
# After a census that failed, the next one begins so many seconds later.
CENSUS_AGAIN_S = 600.0
_ALL_CONTEXTS = ":*:"
_PART_BYTES = 1 << 20
# How much later than its own limit a builder is killed.
_LATE_S = 120.0
_log = logging.getLogger(__name__)


class Build:
    """At most one build process. Used by one thread; the process ends with that thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._not_before: dict[str, float] = {}
        self._begun: Entry
        self._builder: str
        self._deadline = 0.0

    @property
    def runs(self) -> bool:
        """True if a build was started whose result was not processed yet."""
        return self._process is not None

    def may_begin(self, entry: Entry) -> bool:
        """Return true if no build is running and the pause before the entry's next attempt is over."""
        return not self.runs and is_id(entry.id) and time.monotonic() >= self._not_before.get(entry.id, 0.0)

    def begin(self, entry: Entry) -> None:
        """Start a process that takes the entry and builds it. Raises :class:`OSError`."""
        self._process, ours = start_module("snapshots.building.requests", self._settings, entry.id)
        self._deadline = time.monotonic() + self._settings.snapshots_build_timeout_s + _LATE_S
        self._line, self._begun, self._builder = ours, entry, builder_name(self._process.pid)
        pause_s = PAUSE_S * 4**entry.attempts
        self._not_before = {entry.id: time.monotonic() + pause_s}
        _log.info("building the snapshot %s, attempt %d", entry.id, entry.attempts + 1)

    def look(self, catalogue: Catalogue, now_ms: int) -> bool:
        """Return true if the process has ended; its result is then recorded in the catalogue."""
        if self._process is None:
            return False
        code = self._process.poll()
        if code is None and time.monotonic() < self._deadline:
            return False
        if code is None:
            self._settle(catalogue, now_ms, "its builder did not end in time (snapshots_build_timeout_s)")
            return True
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._settle(catalogue, now_ms, f"its builder ended ({how})" if code else "")
        return True

    def end(self, catalogue: Catalogue, now_ms: int) -> None:
        """End the process because this node stops or is no longer primary; release its request."""
        if self._process is not None:
            self._settle(catalogue, now_ms, "")

    def _settle(self, catalogue: Catalogue, now_ms: int, failure: str) -> None:
        """End the process and its children, and update the catalogue entry that it worked on.

        ``failure`` marks the request as failed with that reason, unless the builder has recorded a result. If
        it is empty, a request that was taken goes back to waiting.
        """
        process, self._process = self._process, None
        assert process is not None
        kill_group(process, _END_S)
        if self._line is not None:
            self._line.close()
        entry, builder = catalogue.entries().get(self._begun.id), self._builder
        if entry is None:
            return
        taken = entry.state == "building" and entry.builder == builder
        if taken and not failure:
            catalogue.put(entry.in_state("requested", now_ms, attempts=self._begun.attempts))
        elif failure and (taken or entry == self._begun):
            # Count builders that fail before they take the request, too, to avoid endless retries.
            _log.error("cannot build the snapshot %s: %s", entry.id, failure)
            attempts = self._begun.attempts + 1
            catalogue.put(
                entry.in_state("failed", now_ms, reason=failure, builder=builder, attempts=attempts)
            )


def census_commands(
    lines: Sequence[dict[str, Any]], stored: Sequence[str], former: Sequence[str] = ()
) -> Iterator[Command]:
    """Yield the commands that publish what a census has reported, given the sources that are stored.

    ``former``: the patterns of the newest census so far.

    Sources are withdrawn last: if this census may have missed some, the newest one says so by then.
    """
    *sources, last = lines
    for each in sources:
        yield PutUsage(each["source"], orjson.dumps(each["usage"]))
    yield PutCensus(orjson.dumps(last["census"]))
    found, patterns = {each["source"] for each in sources}, last["census"]["patterns"]
    yield from map(DeleteUsage, stale_sources(stored, found, patterns, former))


class CensusRuns:
    """The censuses that the primary takes by its schedule. One thread calls :meth:`look` at short intervals.

    The process reports what it has counted; this node then submits it to the log, one source after another.
    """

    def __init__(self, settings: Settings, store: Rows, submit: Submit, now: Callable[[], int]) -> None:
        """``now``: the wall clock in ms since the epoch."""
        self._settings, self._store, self._submit, self._now = settings, store, submit, now
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._received = bytearray()
        self._waiting = deque[Command]()
        self._not_before = self._deadline = 0.0

    def look(self, *, primary: bool) -> None:
        """Start a census if one is due, and receive what the running one reports."""
        if not primary:
            self.end()
        elif self._process is not None:
            self._receive(self._process)
        elif not self._waiting and self._is_due():
            self._not_before = time.monotonic() + CENSUS_AGAIN_S
            try:
                self._begin()
            except OSError as error:
                _log.warning("cannot take a census now: %s", error)

    def end(self) -> None:
        """End the process and forget what it has reported: this node stops, or is no longer primary."""
        process, self._process = self._process, None
        if process is not None:
            kill_group(process, _END_S)
        if self._line is not None:
            self._line.close()
            self._line = None
        self._received.clear()
        self._waiting.clear()

    def _is_due(self) -> bool:
        every_s = self._settings.census_every_s
        if not every_s or time.monotonic() < self._not_before:
            return False
        with self._store.view() as view:
            newest = usage.census(view)
        return newest is None or self._now() - newest.started >= every_s * 1000

    def _begin(self) -> None:
        with self._store.view() as view:
            contexts = infer_contexts(subjects(view, _ALL_CONTEXTS, deleted=True))
        _log.info("taking a census of the data")
        self._deadline = time.monotonic() + self._settings.snapshots_build_timeout_s
        module = "snapshots.census.published"
        self._process, self._line = start_module(module, self._settings, request=contexts)
        self._line.setblocking(False)

    def _receive(self, process: subprocess.Popen[bytes]) -> None:
        assert self._line is not None
        code = process.poll()
        with suppress(BlockingIOError, ConnectionError):
            while part := self._line.recv(_PART_BYTES):
                self._received += part
        if code is None and time.monotonic() < self._deadline:
            return
        if code is None:
            _log.error("the census did not end in time (snapshots_build_timeout_s)")
        lines = [orjson.loads(line) for line in bytes(self._received).splitlines()] if code == 0 else []
        self.end()
        if lines:
            with self._store.view() as view:
                stored = [each.source for each in usage.sources(view)]
                former = usage.census(view)
            self._waiting.extend(census_commands(lines, stored, former.patterns if former else ()))
            self._submit_next()

    def _submit_next(self) -> None:
        """Submit a command; the next one follows its reply, on the event loop."""

        def on_reply(outcome: Outcome) -> None:
            if isinstance(outcome, Done):
                self._submit_next()
            else:
                _log.warning("the census is not published: %s", outcome)
                self._waiting.clear()

        with suppress(IndexError):
            request = CommandRequest(self._waiting.popleft(), math.inf)
            self._submit(PendingCommand(request, math.inf, on_reply))
