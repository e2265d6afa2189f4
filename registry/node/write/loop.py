"""What the thread that writes does: claims the log when its node is elected, writes when it is primary."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from registry.log.contract import Fenced, Fencing, LogError, OutcomeUnknown, Unreachable
from registry.node.leadership.role import Task
from registry.node.leadership.role_holder import Membership
from registry.store.layout import DamagedStore, StoreError

from .writer import Writer

_RETRY_S = 0.5
_AGAIN_S = 0.05
"""After a claim that another one overtook: that one's node is about to lose the election, or this one is."""
_LOOK_S = 10.0
_log = logging.getLogger(__name__)


class Duty:
    """One thread's work.

    ``confirm`` asks the election whether this node is elected; ``claim`` claims the log and returns the
    epoch. ``renew_s``: after so much time without an append the fence is renewed; ``None`` where none stands.
    The log may ask for it sooner.
    ``refused`` is called with the reason when the brokers deny what a claim needs, at the first one.
    ``wrote`` is called after each batch.
    """

    def __init__(
        self,
        writer: Writer,
        membership: Membership,
        *,
        started: threading.Event,
        confirm: Callable[[], bool],
        claim: Callable[[], int],
        fencing: Callable[[], Fencing],
        renew_s: float | None,
        refused: Callable[[str], None],
        wrote: Callable[[], None] = lambda: None,
    ) -> None:
        self._writer = writer
        self._membership = membership
        self._started = started
        self._confirm = confirm
        self._claim = claim
        self._fencing = fencing
        self._renew_s = renew_s
        self._refused = refused
        self._wrote = wrote
        self._served = False
        self._told = ""
        self._stopping = False

    @property
    def trouble(self) -> str:
        """Why the last try to claim or to write failed; empty when it did not."""
        return self._told

    def run(self) -> None:
        """Do what the role asks for until :meth:`stop`, and then what still waits."""
        self._started.wait()
        while True:
            role = self._membership.role
            if self._stopping and not self._writer.stat().waiting:
                return
            match role.task:
                case Task.WRITE:
                    self._write()
                case Task.CLAIM if not self._stopping:
                    self.claim_once()
                case _:
                    self._told = ""
                    self._membership.wait(role)

    def _write(self) -> None:
        """One batch, or a look at the fence while there is none."""
        writer = self._writer
        try:
            renew_s = self._renewal_s()
            # Never for long: how often the log needs it may change.
            if writer.wait(None if renew_s is None else min(_LOOK_S, max(0.0, renew_s - writer.idle_s()))):
                writer.step()
                self._told = ""
                self._wrote()
            elif renew_s is not None and (writer.idle_s() >= renew_s or self._fencing().unsafe):
                writer.renew()
        except (Fenced, OutcomeUnknown) as error:
            if self._renew_s is None:
                raise
            self._membership.deposed(str(error))
        except Unreachable as error:
            self._pause(str(error), _RETRY_S)
        except LogError as error:
            self._membership.deposed(str(error))
        except DamagedStore:
            raise
        except StoreError as error:
            self._pause(str(error), _RETRY_S)

    def _renewal_s(self) -> float | None:
        needed_s = self._fencing().renew_s
        return self._renew_s if self._renew_s is None or needed_s is None else min(self._renew_s, needed_s)

    def claim_once(self) -> None:
        """Try to become primary."""
        membership = self._membership
        membership.claiming()
        began = time.monotonic()
        try:
            # Asked right before: a node that was frozen since it was elected must not fence its successor.
            if not self._confirm():
                self._give_up("the election does not confirm that this node is elected", _RETRY_S)
                return
            epoch = self._claim()
        except Fenced as error:
            self._give_up(str(error), _AGAIN_S)
        except (LogError, StoreError) as error:
            if isinstance(error, DamagedStore):
                raise
            self._give_up(str(error), _RETRY_S)
            if type(error) is LogError and not self._served and not self._stopping:
                self._refused(str(error))
        else:
            self._served, self._told = True, ""
            membership.claimed(epoch)
            _log.info("the log was claimed in %.0f ms, epoch %d", (time.monotonic() - began) * 1000, epoch)

    def _give_up(self, reason: str, pause_s: float) -> None:
        self._membership.deposed(reason)
        self._pause(reason, pause_s)

    def _pause(self, reason: str, seconds: float) -> None:
        if reason != self._told:
            _log.warning("%s; trying again", reason)
            self._told = reason
        self._membership.wait(self._membership.role, seconds)

    def stop(self) -> None:
        """Make :meth:`run` return once nothing waits."""
        self._stopping = True
        self._writer.close()
        self._membership.close()
        self._started.set()
