"""The write thread: claims the log when its node is elected, and writes while the node is primary."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from registry.domain.admission import is_large
from registry.domain.pending_command import PendingCommand
from registry.log.contract import AsyncLog, Fenced, Fencing, LogError, OutcomeUnknown, Unreachable
from registry.node.leadership.role import RoleHolder, Task
from registry.store.layout import DamagedStore, StoreClosed, StoreError

from .batch_writer import Append, LogCall, Steps, resume_steps, run_steps
from .writer import Writer

# Without an append for this long the fence is renewed; sooner if the brokers expire producers sooner.
RENEW_S = 3600.0
_RETRY_S = 0.5
# Pause after another node's claim has fenced this one's: one of the two is about to lose the election.
_AGAIN_S = 0.05
_LOOK_S = 10.0
# Seconds for which a node that was denied the claim leaves it to others.
_DENIED_S = 10.0
# A write that keeps the event loop this long leaves the next ones to the write thread for the first pause. If
# the next one after that is slow too, as with a slow disk, the pause is twice as long, up to the last. A slow
# one that comes alone may only have waited for a busy processor, as the write thread would.
SLOW_S, SLOW_PAUSES_S = 0.05, (0.125, 1.0)
# Parts of a write that are measured.
_PARTS_MAX = 2
_log = logging.getLogger(__name__)
T = TypeVar("T")


class WriteLoop:
    """The loop of the write thread.

    ``confirm`` asks the election if this node is elected; ``claim`` claims the log and returns the epoch.
    ``renew_s``: seconds without an append after which the fence is renewed, sooner if the log asks for it;
    ``None`` if there is no fence. ``wrote`` is called after each batch.
    """

    def __init__(
        self,
        writer: Writer,
        role_holder: RoleHolder,
        *,
        started: threading.Event,
        confirm: Callable[[], bool],
        claim: Callable[[], int],
        fencing: Callable[[], Fencing],
        renew_s: float | None,
        wrote: Callable[[], None] = lambda: None,
    ) -> None:
        self._writer = writer
        self._role_holder = role_holder
        self._started = started
        self._confirm = confirm
        self._claim = claim
        self._fencing = fencing
        self._renew_s = renew_s
        self._wrote = wrote
        self._last_error = ""
        # Why the last claim was denied, and until when that is taken to last, by the monotonic clock.
        self._denied = ("", 0.0)
        self._stopping = False

    @property
    def last_error(self) -> str:
        """The reason why the last attempt to claim or to write failed; empty if it succeeded."""
        return self._last_error

    @property
    def denial(self) -> str:
        """The reason why Kafka denied this node a claim within the last seconds; empty if it did not."""
        reason, until = self._denied
        return reason if time.monotonic() < until else ""

    def run(self) -> None:
        """Claim and write as the role demands until :meth:`stop`, then decide the commands still queued."""
        self._started.wait()
        while True:
            role = self._role_holder.role
            if self._stopping and not self._writer.stat().waiting:
                return
            match role.task:
                case Task.WRITE:
                    self._write()
                case Task.CLAIM if not self._stopping:
                    self.claim_once()
                case _:
                    self._last_error = ""
                    self._role_holder.wait(role)

    def write_in_place(self) -> bool:
        """Write the only command that waits, in the calling thread.

        Returns false if there are more, or if the write thread is busy. Raises what ends the node.
        """
        with self._writer.in_place() as alone:
            if alone:
                self.attempt(self._step)
        return alone

    def attempt(self, work: Callable[[], None]) -> None:
        """Do a part of a step in the write thread's place. Raises what ends the node.

        After an error that passes the command waits again, and the write thread meets the error.
        """
        self._attempt(work)

    def finish(self) -> None:
        """Note that a step was made in the write thread's place."""
        self._last_error = ""
        self._wrote()

    def _write(self) -> None:
        if error := self._attempt(self._write_or_renew):
            self._pause(error, _RETRY_S)

    def _write_or_renew(self) -> None:
        """Write one batch, or renew the fence if it is due and no command is queued."""
        writer, renew_s = self._writer, self._renewal_s()
        # Bounded, because the interval that the log asks for may change.
        if writer.wait(None if renew_s is None else min(_LOOK_S, max(0.0, renew_s - writer.idle_s()))):
            self._step()
        elif renew_s is not None and (writer.idle_s() >= renew_s or self._fencing().unsafe):
            writer.renew()

    def _step(self) -> None:
        self._writer.step()
        self.finish()

    def _attempt(self, work: Callable[[], None]) -> str:
        """Do ``work``; return the error after which another attempt is worth while in some time.

        Raises what ends the node.
        """
        try:
            work()
        except (Fenced, OutcomeUnknown) as error:
            if self._renew_s is None:
                raise
            self._role_holder.depose(str(error))
        except Unreachable as error:
            return str(error)
        except LogError as error:
            self._role_holder.depose(str(error))
        except (DamagedStore, StoreClosed):
            raise
        except StoreError as error:
            return str(error)
        return ""

    def _renewal_s(self) -> float | None:
        needed_s = self._fencing().renew_s
        return self._renew_s if self._renew_s is None or needed_s is None else min(self._renew_s, needed_s)

    def claim_once(self) -> None:
        """Make one attempt to become primary."""
        role_holder = self._role_holder
        role_holder.claiming()
        began = time.monotonic()
        try:
            # Confirm just before the claim: a node suspended since its election must not fence its successor.
            if not self._confirm():
                self._give_up("the election does not confirm that this node is elected", _RETRY_S)
                return
            epoch = self._claim()
        except Fenced as error:
            self._give_up(str(error), _AGAIN_S)
        except (LogError, StoreError) as error:
            if isinstance(error, DamagedStore):
                raise
            if type(error) is LogError:  # such as a missing permission, which another node may have
                self._denied = (f"this node cannot become primary: {error}", time.monotonic() + _DENIED_S)
            self._give_up(str(error), _RETRY_S)
        else:
            self._last_error = ""
            role_holder.claim(epoch)
            _log.info("claimed the log in %.0f ms, epoch %d", (time.monotonic() - began) * 1000, epoch)

    def _give_up(self, reason: str, pause_s: float) -> None:
        self._role_holder.depose(reason)
        self._pause(reason, pause_s)

    def _pause(self, reason: str, seconds: float) -> None:
        if reason != self._last_error:
            _log.warning("%s; retrying", reason)
            self._last_error = reason
        self._role_holder.wait(self._role_holder.role, seconds)

    def stop(self) -> None:
        """Make :meth:`run` return once the queue is empty."""
        self._stopping = True
        self._writer.close()
        self._role_holder.close()
        self._started.set()


class LoneWrites:
    """Submits the commands of a standalone node, and writes those that come alone; used on its event loop.

    To hand a command to the write thread and its reply back takes four switches between threads, which cost
    more than the sync of the log. So the event loop itself writes a small command that arrives while nothing
    else waits. As soon as there are more, or writes take long, the write thread writes them in batches.
    ``is_busy``: a write would wait for maintenance. ``guarded`` runs a function and ends the node if it
    fails.
    """

    def __init__(
        self,
        writer: Writer,
        write_in_place: Callable[[], bool],
        *,
        is_busy: Callable[[], bool],
        guarded: Callable[[str, Callable[[], None]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = writer
        self._write_in_place = write_in_place
        self._is_busy = is_busy
        self._guarded = guarded
        self._clock = clock
        self._scheduled = False
        # Until then the write thread writes, because a write took too long; and for how long.
        self._slow_until = -math.inf
        self._pause_s = 0.0
        # Parts of writes that did not take too long, since one did.
        self._quick = 0

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command; see :meth:`.writer.Writer.submit`."""
        if is_large(pending.size) or self._clock() < self._slow_until:
            self._writer.submit(pending)
        elif self._writer.add(pending) and not self._scheduled:
            # Not at once: what has arrived together is written together.
            self._scheduled = True
            self._loop.call_soon(self._guarded, "write", self._write)

    def _write(self) -> None:
        self._scheduled = False
        if self._is_busy() or not self.measure(self._write_in_place):
            self._writer.wake()

    def measure(self, work: Callable[[], T]) -> T:
        """Do ``work`` on the event loop; if it takes long, the write thread writes for a while."""
        began = self._clock()
        result = work()
        if (ended := self._clock()) - began > SLOW_S:
            first_s, last_s = SLOW_PAUSES_S
            self._pause_s = (
                first_s if self._quick >= _PARTS_MAX else min(2 * self._pause_s or first_s, last_s)
            )
            self._slow_until, self._quick = ended + self._pause_s, 0
        else:
            self._quick += 1
        return result


class LoneAppends:
    """:class:`LoneWrites` of a node in a cluster: the event loop does not wait while ``log`` appends.

    Until the step has ended, the write thread goes on waiting. Whatever would block the event loop is left to
    it, and everything that failed. ``soon`` calls a function on the event loop.
    """

    def __init__(
        self,
        writer: Writer,
        write_loop: WriteLoop,
        log: AsyncLog,
        *,
        is_busy: Callable[[], bool],
        guarded: Callable[[str, Callable[[], None]], None],
        soon: Callable[..., object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lone = LoneWrites(writer, self._begin, is_busy=is_busy, guarded=guarded, clock=clock)
        self._writer = writer
        self._write_loop = write_loop
        self._log = log
        self._is_busy = is_busy
        self._guarded = guarded
        self._soon = soon

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command; see :meth:`.writer.Writer.submit`."""
        self._lone.submit(pending)

    def _begin(self) -> bool:
        if not self._writer.displace():
            return False
        self._resume(self._writer.steps(), lambda: None)
        return True

    def _resume(self, steps: Steps[None], result: Callable[[], Any]) -> None:
        """Go on with the steps until they call the log."""
        calls: list[LogCall] = []

        def resume() -> None:
            try:
                calls.append(resume_steps(steps, result))
            except StopIteration:
                self._write_loop.finish()

        try:
            self._write_loop.attempt(resume)
        except BaseException:
            self._writer.reinstate()
            raise
        match calls:
            case [Append() as append]:
                self._begin_append(steps, append)
            case [call]:
                self._leave(steps, partial(call.perform, self._log))
            case _:
                self._writer.reinstate()

    def _begin_append(self, steps: Steps[None], append: Append) -> None:
        try:
            done = partial(self._soon, self._on_appended, steps, append)
            self._log.begin_append(append.entries, append.cuts, append.headers, done)
        except Exception as error:
            self._leave(steps, partial(_raise, error))

    def _on_appended(self, steps: Steps[None], append: Append, first: int | Exception) -> None:
        if isinstance(first, Exception):
            self._leave(steps, partial(_raise, first))
            return
        try:
            appended = append.locate(self._log, first)
        except OutcomeUnknown as error:
            self._leave(steps, partial(_raise, error))
            return
        if append.fits(appended) and self._log.is_at_hand(first) and not self._is_busy():
            resume = partial(self._resume, steps, lambda: appended)
            self._lone.measure(partial(self._guarded, "write", resume))
        else:
            self._leave(steps, lambda: appended)

    def _leave(self, steps: Steps[None], result: Callable[[], Any]) -> None:
        self._writer.reinstate(partial(run_steps, steps, self._log, result))


def _raise(error: Exception) -> None:
    raise error
