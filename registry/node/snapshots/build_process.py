"""The build of a snapshot on this host: one process at a time, which must not slow down what serves."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import time
from contextlib import suppress

from registry.config.settings import Settings
from registry.processes.commands import module_command
from snapshots.catalogue.builders import builder_name
from snapshots.catalogue.catalogue import Catalogue, Entry
from snapshots.format.manifest import is_id

PAUSE_S = 2.0
"""Before the second build of a request; before a third one four times as long."""
_END_S = 2.0
_log = logging.getLogger(__name__)


class Build:
    """At most one process that builds. Used by one thread, with which the process ends."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._not_before: dict[str, float] = {}
        self._begun: Entry
        self._builder: str

    @property
    def runs(self) -> bool:
        """Whether a build was begun that nobody has looked after yet."""
        return self._process is not None

    def may_begin(self, entry: Entry) -> bool:
        """Whether it is time for the entry's next build."""
        return not self.runs and is_id(entry.id) and time.monotonic() >= self._not_before.get(entry.id, 0.0)

    def begin(self, entry: Entry) -> None:
        """Start a process that claims the entry and builds it. Raises :class:`OSError`."""
        ours, theirs = socket.socketpair()
        given = pickle.dumps({"settings": self._settings, "endpoint": "", "parent": os.getpid()})
        with theirs:
            command, environment = module_command(
                "snapshots.building.requests", str(theirs.fileno()), entry.id
            )
            try:
                # In a group of its own, with all that it starts itself.
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
            ours.sendall(len(given).to_bytes(4, "big") + given)
        self._line, self._begun, self._builder = ours, entry, builder_name(self._process.pid)
        pause_s = PAUSE_S * 4**entry.attempts
        self._not_before = {entry.id: time.monotonic() + pause_s}
        _log.info("the snapshot %s is being built, try %d", entry.id, entry.attempts + 1)

    def look(self, catalogue: Catalogue, now_ms: int) -> bool:
        """Whether the process has ended; then the catalogue says what became of it."""
        if self._process is None:
            return False
        code = self._process.poll()
        if code is None:
            return False
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._settle(catalogue, now_ms, f"its builder has ended ({how})" if code else "")
        return True

    def end(self, catalogue: Catalogue, now_ms: int) -> None:
        """End the process, because this node stops or writes no more: the request is anybody's again."""
        if self._process is not None:
            self._settle(catalogue, now_ms, "")

    def _settle(self, catalogue: Catalogue, now_ms: int, failure: str) -> None:
        """``failure``: why the request has failed, if nobody else says so; else it waits again."""
        process, self._process = self._process, None
        assert process is not None
        with suppress(OSError):
            # What the builder has started may outlive it.
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        if self._line is not None:
            self._line.close()
        entry, builder = catalogue.entries().get(self._begun.id), self._builder
        if entry is None:
            return
        claimed = entry.state == "building" and entry.builder == builder
        if claimed and not failure:
            catalogue.put(entry.in_state("requested", now_ms, attempts=self._begun.attempts))
        elif failure and (claimed or entry == self._begun):
            # One that fails before it could claim anything must not be begun for ever.
            _log.error("the snapshot %s was not built: %s", entry.id, failure)
            attempts = self._begun.attempts + 1
            catalogue.put(
                entry.in_state("failed", now_ms, reason=failure, builder=builder, attempts=attempts)
            )
