"""Progress of a node's start, including the loading of a snapshot.

Another process finds and loads the snapshot (:mod:`.snapshot_loader`). This module records its reports for
status queries.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from registry.api.backend import NodeStatus, SnapshotStart

if TYPE_CHECKING:
    from registry.encoder.ciphers import NodeCipher

_PROGRESS_EVERY_S = 5.0
_log = logging.getLogger(__name__)


class Stopped(Exception):
    """Abort of the start, because the node has to stop."""


class StartProgress:
    """Progress of one start. One thread performs the start; any thread may query or stop it."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._snapshot = SnapshotStart()
        self._loading_since = self._logged_at = 0.0
        self._lock = threading.Lock()
        self._stopped = False
        self._kill: Callable[[], None] | None = None
        # Set as soon as the start is known to take a while.
        self.long = threading.Event()
        # Called when `long` is set, from any thread.
        self.when_long: Callable[[], None] = _nothing
        # True once the log is known to be the store's, whose rows may be served until the node is there.
        self.examined = False
        # Called when that is known, from any thread.
        self.when_examined: Callable[[], None] = _nothing
        # Encrypts sensitive metadata; set before the start ends, if a secret is configured.
        self.cipher: NodeCipher | None = None
        # Reason for waiting for something external; empty if there is none.
        self.waiting = ""

    @property
    def snapshot(self) -> SnapshotStart | None:
        """Return the snapshot being or having been loaded, and the rejected ones; ``None`` without any."""
        loading = self._snapshot
        return loading if loading.id or loading.refused else None

    def takes_long(self) -> None:
        """Record that the start takes a while."""
        self.long.set()
        self.when_long()

    def log_suits(self) -> None:
        """Record that the log is the store's."""
        self.examined = True
        self.when_examined()

    def status(self) -> NodeStatus:
        """Return the status of a node whose log and store are not open yet."""
        reasons = [self._reason()]
        return NodeStatus(
            role="following", epoch=-1, applied=0, end=0, digest="", started=False, ready=False,
            reasons=reasons, reasons_for_writes=reasons, eta_s=self._snapshot.eta_s, start=self.snapshot,
        )  # fmt: skip

    def _reason(self) -> str:
        loading = self._snapshot
        if loading.id and not loading.loaded:
            left = "unknown" if loading.eta_s is None else f"{loading.eta_s:.0f} s"
            done = f"{loading.rows_done} of {loading.rows} rows"
            return f"loading the snapshot {loading.id}: {done}, remaining: {left}"
        return self.waiting or f"opening log and store for {time.monotonic() - self._began:.0f} s"

    def stop(self) -> None:
        """Stop the loading of a snapshot, now or later; :meth:`loading` then raises :class:`Stopped`."""
        with self._lock:
            self._stopped = True
            if self._kill is not None:
                self._kill()

    @contextmanager
    def loading(self, kill: Callable[[], None]) -> Iterator[None]:
        """Let :meth:`stop` end another process that loads a snapshot by ``kill``, during a ``with`` block.

        Raises :class:`Stopped` at the end of the block if the start was stopped.
        """
        with self._lock:
            self._kill = kill
            if self._stopped:
                kill()
        try:
            yield
        finally:
            with self._lock:
                self._kill = None
            if self._stopped:
                raise Stopped  # replaces any error caused by ending the process

    def on_report(self, report: dict[str, Any]) -> None:
        """Record a report of the loading process."""
        self.waiting = report.get("waiting", "")
        if self.waiting:
            _log.warning("%s", self.waiting)
        if "message" in report:
            self.record_refusal(report["message"])
        if "chosen" in report:
            self._loading_since = self._logged_at = time.monotonic()
            self._snapshot = SnapshotStart(
                id=report["chosen"], offset=report["offset"], rows=report["rows"], bytes=report["size"],
                refused=self._snapshot.refused,
            )  # fmt: skip
            _log.info("loading the snapshot %s: %d rows, %.1f MB, up to offset %d",
                      report["chosen"], report["rows"], report["size"] / 1e6, report["offset"])  # fmt: skip
        if "step" in report:
            self._progress(report["rows"], report["size"])

    def _progress(self, rows: int, size: int) -> None:
        now, loading = time.monotonic(), self._snapshot
        took_s = now - self._loading_since
        eta_s = took_s * (loading.bytes - size) / size if size else None
        self._snapshot = replace(
            loading, rows_done=rows, bytes_done=size, took_s=round(took_s, 3), eta_s=eta_s
        )
        if now - self._logged_at >= _PROGRESS_EVERY_S:
            self._logged_at = now
            left = "unknown" if eta_s is None else f"{eta_s:.0f} s"
            _log.info("loading the snapshot: %d of %d rows, remaining: %s", rows, loading.rows, left)

    def record_refusal(self, sentence: str) -> None:
        """Log and record why a snapshot is not used."""
        _log.warning("%s", sentence)
        self._snapshot = replace(self._snapshot, refused=[*self._snapshot.refused, sentence])

    def record_end(self, taken: str, end: int) -> None:
        """Record that the process loaded the snapshot ``taken``, "" for none; the log ends at ``end``."""
        loading = self._snapshot
        if not taken:
            self._snapshot = SnapshotStart(refused=loading.refused)
            if loading.refused:
                _log.warning("no snapshot was loaded; reading the log instead")
            return
        took_s = max(0.001, time.monotonic() - self._loading_since)
        self._snapshot = replace(loading, loaded=True, took_s=round(took_s, 3), eta_s=0.0)
        _log.info(
            "the snapshot %s was loaded in %.2f s: %.0f rows/s, %.0f MB/s; %d records of the log remain",
            taken, took_s, loading.rows / took_s, loading.bytes / 1e6 / took_s, end - loading.offset,
        )  # fmt: skip


def _nothing() -> None:
    pass
