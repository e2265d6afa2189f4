"""Coordination of snapshots on a node: requests, schedule, builds and deletion.

One thread does everything that waits for the catalogue, a location or a process. Only the primary publishes,
requests, builds and retires snapshots on its own. A request is first a marker in the log, then an entry of
the catalogue. The primary looks for a marker without an entry, so a new primary resumes interrupted requests.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Protocol

from msgspec.structs import replace

from registry.base.config.setting_types import Schedule
from registry.base.config.settings import Settings
from registry.domain.commands import (
    Done,
    NotPrimary,
    Outcome,
    RequestSnapshot,
    Unknown,
    refusal,
)
from registry.domain.errors import TOO_MANY_WRITES, UNAVAILABLE, RegistryError
from registry.domain.pending_command import CommandRequest, PendingCommand, Submit
from registry.domain.rows.view import Rows
from snapshots.catalogue.catalogue import CatalogueError, Entry, has_ended, newest_first

from .build_process import Build, CensusRuns
from .catalogue_view import Entries, why_due

CALLS_MAX = 100
LOOK_EVERY_S = 30.0  # Seconds between reads of the catalogue while no change is expected.
LOOK_SOON_S = 2.0  # Seconds between reads while a snapshot is requested or being built.
TICK_S = 0.5
AGAIN_S = 10.0  # Seconds before a retry after an error or a failed request of the schedule.
_log = logging.getLogger(__name__)

# All entries, or the error of reading them.
Listed = list[Entry] | RegistryError
# The remaining entry if its files cannot be deleted yet, None if it was deleted, or the error.
Deleted = Entry | None | RegistryError


class Situation(Protocol):
    """Interface to the state of the node."""

    @property
    def role(self) -> str:
        """Return ``primary`` while the node is primary."""
        ...

    @property
    def is_started(self) -> bool:
        """True once the log was read up to its end."""
        ...


class SnapshotCoordinator:
    """Coordinator of a node's snapshots; its public methods may be called from any thread."""

    def __init__(
        self,
        settings: Settings,
        store: Rows,
        log: str,
        *,
        situation: Situation,
        submit: Submit,
        soon: Callable[[Callable[[], None]], None],
        now: Callable[[], int],
    ) -> None:
        """Create the coordinator.

        ``log`` is the identity of the log, ``now`` the wall clock in ms since the epoch. ``soon`` schedules a
        function on the event loop, where all replies and callbacks run.
        """
        self._settings = settings
        self._store = store
        self._situation = situation
        self._submit = submit
        self._soon = soon
        self._now = now
        self._schedule = Schedule.parse(settings.snapshots_every)
        self.entries = Entries(settings, store, log, now)
        self._build = Build(settings)
        self._censuses = CensusRuns(settings, store, submit, now)
        self._calls: Queue[Callable[[], None] | None] = Queue(CALLS_MAX)
        self._next_look = self._next_ask = 0.0
        self._asked = False
        self._stopping = False
        self._last_error = ""

    # --- from any thread

    def request(self, pending: PendingCommand) -> None:
        """Submit a :class:`RequestSnapshot`; :class:`Done` contains the entry, published in the catalogue."""
        if not self._call(lambda: self._request(pending)):
            self._reply(pending, refusal(TOO_MANY_WRITES()))

    def list_entries(self, answer: Callable[[Listed], None]) -> bool:
        """Pass all entries to ``answer``, newest first; return false if too many calls are waiting."""
        return self._call(lambda: self._list(answer))

    def delete(self, id: str, answer: Callable[[Deleted], None]) -> bool:
        """Delete a snapshot, or mark it as being deleted if its files cannot be deleted now.

        Pass the result to ``answer``; return false if too many calls are waiting.
        """
        return self._call(lambda: self._delete(id, answer))

    def wake(self) -> None:
        """Read the catalogue as soon as possible, because the role has changed."""
        with suppress(Full):
            self._calls.put_nowait(None)

    def stop(self) -> None:
        """Make :meth:`run` end."""
        self._stopping = True
        self.wake()

    def _call(self, call: Callable[[], None]) -> bool:
        try:
            self._calls.put_nowait(call)
        except Full:
            return False
        return True

    # --- on the thread

    def run(self) -> None:
        """Serve calls and work on requested snapshots until :meth:`stop`."""
        try:
            while not self._stopping:
                next_tick = time.monotonic() + TICK_S
                while (left_s := next_tick - time.monotonic()) > 0 and not self._stopping:
                    self._call_guarded(lambda: self._serve_one(left_s))
                if not self._stopping:
                    self._call_guarded(self._tick)
        finally:
            self._censuses.end()
            with suppress(CatalogueError):
                self._build.end(self.entries.catalogue, self._now())
            self.entries.catalogue.close()

    def _call_guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            # An error with snapshots must not end a node that serves.
            _log.exception("unexpected error in the snapshot coordinator; retrying")
            self._next_look = self._next_ask = time.monotonic() + AGAIN_S

    def _serve_one(self, timeout_s: float) -> None:
        with suppress(Empty):
            call = self._calls.get(timeout=timeout_s)
            if call is None:
                self._next_look = 0.0
            else:
                call()

    @property
    def _primary(self) -> bool:
        return self._situation.role == "primary" and self._situation.is_started

    def _tick(self) -> None:
        self._censuses.look(primary=self._primary)
        try:
            if self._build.look(self.entries.catalogue, self._now()):
                self._next_look = 0.0
            now = time.monotonic()
            if now >= self._next_look or (now >= self._next_ask and self._primary and self._why_due()):
                self._look()
                self._last_error = ""
        except CatalogueError as error:
            self._next_look = self._next_ask = time.monotonic() + AGAIN_S
            if str(error) != self._last_error:
                self._last_error = str(error)
                _log.warning("%s", error)

    def _look(self) -> None:
        self.entries.read()
        if self._primary:
            self.entries.publish()
            self.entries.retire()
            self._ask_if_due()
            self._have_built()
        elif self._build.runs:
            self._build.end(self.entries.catalogue, self._now())
        busy = self._asked or self._build.runs or any(
            each.state in ("requested", "building") or (each.state == "failed" and each.is_free(self._now()))
            for each in self.entries.seen.values()
        )  # fmt: skip
        self._next_look = time.monotonic() + (LOOK_SOON_S if busy else LOOK_EVERY_S)
        if not busy:
            self.entries.catalogue.rest()

    def _request(self, pending: PendingCommand) -> None:
        if self._situation.role != "primary":
            self._reply(pending, NotPrimary())
            return
        try:
            command = replace(pending.command, begun=self.entries.newest_begun_offset())
        except CatalogueError as error:
            self._reply(pending, refusal(UNAVAILABLE(f"No snapshot was requested: {error}")))
            return

        def on_reply(outcome: Outcome) -> None:
            if not isinstance(outcome, Done) or not self._call(lambda: self._announce(outcome, pending)):
                pending.reply(outcome)

        request = replace(pending.request, command=command)
        self._submit(PendingCommand(request, pending.deadline, on_reply))

    def _reply(self, pending: PendingCommand, outcome: Outcome) -> None:
        self._soon(lambda: pending.reply(outcome))

    def _announce(self, done: Done, pending: PendingCommand) -> None:
        """Publish the entry of a marker that was written to the log, and reply with it."""
        self._asked, self._next_look = False, 0.0
        outcome: Outcome
        try:
            entry = self.entries.publish()
            if entry is None:
                outcome = Unknown("The requested snapshot has already been deleted")
            else:
                outcome = Done(entry.dumps(), done.offset)
        except CatalogueError as error:
            outcome = Unknown(
                f"The snapshot was requested, but is not in the catalogue yet; it is safe to retry ({error})"
            )
        self._reply(pending, outcome)

    def _why_due(self) -> str:
        if self._asked or not any(self._schedule):
            return ""
        return why_due(
            self._schedule, self.entries.ours(), self.entries.log, self._store.applied, self._now()
        )

    def _ask_if_due(self) -> None:
        why = self._why_due()
        if not why or time.monotonic() < self._next_ask:
            return
        _log.info("requesting a snapshot: %s", why)

        def on_reply(outcome: Outcome) -> None:
            self._asked = False
            if not isinstance(outcome, Done):
                self._next_ask = time.monotonic() + AGAIN_S
                _log.warning("cannot request a snapshot: %s", outcome)

        self._asked = True
        request = CommandRequest(RequestSnapshot(secrets.token_hex(8)), math.inf)
        self._request(PendingCommand(request, math.inf, on_reply))

    def _have_built(self) -> None:
        now = self._now()
        if self._settings.snapshots_builder == "none" or self._build.runs:
            return
        for entry in self.entries.ours():
            if entry.state == "building" and not entry.is_silent(now) and has_ended(entry.builder):
                # It was a builder on this host, started before the node was restarted.
                why = "its builder ended with its node"
                self.entries.catalogue.put(entry.in_state("failed", now, reason=why))
            elif entry.is_free(now) and self._build.may_begin(entry):
                try:
                    self._build.begin(entry)
                except OSError as error:
                    _log.warning("cannot build a snapshot now: %s", error)
                return

    def _list(self, answer: Callable[[Listed], None]) -> None:
        listed: Listed
        try:
            listed = newest_first(self.entries.read().values())
        except CatalogueError as error:
            listed = UNAVAILABLE(str(error))
        self._soon(lambda: answer(listed))

    def _delete(self, id: str, answer: Callable[[Deleted], None]) -> None:
        deleted: Deleted
        try:
            deleted = self.entries.delete(id)
        except CatalogueError as error:
            deleted = UNAVAILABLE(str(error))
        except RegistryError as error:
            deleted = error
        self._soon(lambda: answer(deleted))
