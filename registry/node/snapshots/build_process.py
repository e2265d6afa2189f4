"""Build of snapshots on this host, in one separate process at a time, so that serving is not slowed down."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import time
from contextlib import suppress

from registry.base.config.settings import Settings
from registry.base.processes.child_process import module_command
from snapshots.catalogue.catalogue import Catalogue, Entry, builder_name
from snapshots.format.manifest import is_id

PAUSE_S = 2.0  # Seconds before the second attempt at a request; four times as long before each further one.
_END_S = 2.0
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
        ours, theirs = socket.socketpair()
        message = pickle.dumps({"settings": self._settings, "endpoint": "", "parent": os.getpid()})
        with theirs:
            command, environment = module_command(
                "snapshots.building.requests", str(theirs.fileno()), entry.id
            )
            try:
                # A process group of its own, for it and its children.
                self._process = subprocess.Popen(  # noqa: S603 (our own module)
                    command,
                    pass_fds=(theirs.fileno(),),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        with suppress(OSError):
            ours.sendall(len(message).to_bytes(4, "big") + message)
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
        with suppress(OSError):
            # Children of the builder may outlive it.
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
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
