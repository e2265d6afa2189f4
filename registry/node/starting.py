"""How a node comes to its rows: by a snapshot, where that is quicker than reading the log.

The snapshot is found and loaded by another process (:mod:`.taking`), which takes its libraries and its memory
away with it. Whatever goes wrong there is said, and the log is read instead.
"""

from __future__ import annotations

import logging
import pickle
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

import orjson

from registry.api.status import NodeStatus, SnapshotStart
from registry.config import Settings
from registry.log.contract import Log
from registry.log.embedded import EmbeddedLog, now_ms
from registry.modules import module_command
from registry.snapshot.choosing import Situation
from registry.snapshot.refused import refused_in
from registry.snapshot.taking import Wanted
from registry.store.opening import Load

from .taking import LENGTH_BYTES, Given

_PROGRESS_EVERY_S = 5.0
_log = logging.getLogger(__name__)


class Starting:
    """What is known of a start. One thread starts, any may ask."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._began = time.monotonic()
        self._snapshot = SnapshotStart()
        self._loading_since = self._told_at = 0.0
        self.waiting = ""
        """What the start waits for, if that is not in its own hands."""

    @property
    def snapshot(self) -> SnapshotStart | None:
        """The snapshot that is or was loaded, and those that were not; ``None`` when there were none."""
        told = self._snapshot
        return told if told.id or told.refused else None

    def status(self) -> NodeStatus:
        """The state of a node that has neither log nor store yet."""
        return NodeStatus(
            role="following", epoch=-1, applied=0, end=0, digest="", started=False, ready=False,
            reasons=[self._reason()], eta_s=self._snapshot.eta_s, start=self.snapshot,
        )  # fmt: skip

    def _reason(self) -> str:
        told = self._snapshot
        if told.id and not told.loaded:
            left = "unknown" if told.eta_s is None else f"{told.eta_s:.0f} s"
            return f"loading the snapshot {told.id}: {told.rows_done} of {told.rows} rows, left: {left}"
        return self.waiting or f"opening log and store since {time.monotonic() - self._began:.0f} s"

    def loader(self, log: Log) -> Load | None:
        """What loads a snapshot of ``log`` where that pays; ``None`` where it cannot."""
        settings = self._settings
        if settings.snapshots_load == "off":
            return None

        def load(folder: Path, applied: int) -> bool:
            end = log.end()
            if end - applied < max(1, settings.snapshots_load_ahead):
                return False
            retention_ms = log.tombstone_retention_ms
            if isinstance(log, EmbeddedLog):
                # Its own store has applied whatever it forgets; a snapshot has not.
                retention_ms = round(settings.tombstone_retention_s * 1000)
            margin_ms = round(settings.end_age_margin_s * 1000)
            refused = refused_in(folder.parent)
            situation = Situation(log.identity, end, retention_ms, margin_ms, now_ms(), refused)
            ahead_min = settings.snapshots_load_ahead
            return self._take(Wanted(situation, applied, ahead_min, folder, settings.store_map_bytes))

        return load

    def _take(self, wanted: Wanted) -> bool:
        """Have another process take a snapshot; whether it has."""
        command, environment = module_command("registry.node.taking")
        # Arrow's own allocators keep what is freed.
        environment.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        taken = ""
        with subprocess.Popen(  # noqa: S603 (our own module)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _give(process.stdin, Given(self._settings, wanted))
                for line in process.stdout:
                    taken = self._heard(line) or taken
                # Its input stays open until here: the end of this process would be its own.
                process.stdin.close()
                code = process.wait()
            except OSError as error:
                process.kill()
                self._refused(f"No snapshot can be loaded: {error}")
                return False
        if code:
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            self._refused(f"No snapshot was loaded: the process that should has ended ({how})")
        self._end(taken if not code else "", wanted.situation.end)
        return bool(taken) and not code

    def _heard(self, line: bytes) -> str:
        """Take note of what the process says; the id of the snapshot that it has taken, if it says so."""
        told = orjson.loads(line)
        if "said" in told:
            self._refused(told["said"])
        if "chosen" in told:
            self._loading_since = self._told_at = time.monotonic()
            self._snapshot = SnapshotStart(
                id=told["chosen"], offset=told["offset"], rows=told["rows"], bytes=told["size"],
                refused=self._snapshot.refused,
            )  # fmt: skip
            _log.info("loading the snapshot %s: %d rows, %.1f MB, up to offset %d",
                      told["chosen"], told["rows"], told["size"] / 1e6, told["offset"])  # fmt: skip
        if "step" in told:
            self._progress(told["rows"], told["size"])
        taken: str = told.get("taken", "")
        return taken

    def _progress(self, rows: int, size: int) -> None:
        now, told = time.monotonic(), self._snapshot
        took_s = now - self._loading_since
        eta_s = took_s * (told.bytes - size) / size if size else None
        self._snapshot = _replaced(
            told, rows_done=rows, bytes_done=size, took_s=round(took_s, 3), eta_s=eta_s
        )
        if now - self._told_at >= _PROGRESS_EVERY_S:
            self._told_at = now
            left = "unknown" if eta_s is None else f"{eta_s:.0f} s"
            _log.info("loading the snapshot: %d of %d rows, left: %s", rows, told.rows, left)

    def _refused(self, sentence: str) -> None:
        _log.warning("%s", sentence)
        self._snapshot = _replaced(self._snapshot, refused=[*self._snapshot.refused, sentence])

    def _end(self, taken: str, end: int) -> None:
        told = self._snapshot
        if not taken:
            self._snapshot = SnapshotStart(refused=told.refused)
            if told.refused:
                _log.warning("no snapshot was loaded, so the log is read instead")
            return
        took_s = max(0.001, time.monotonic() - self._loading_since)
        self._snapshot = _replaced(told, loaded=True, took_s=round(took_s, 3), eta_s=0.0)
        _log.info(
            "the snapshot %s was loaded in %.2f s: %.0f rows/s, %.0f MB/s; %d records of the log are left",
            taken, took_s, told.rows / took_s, told.bytes / 1e6 / took_s, end - told.offset,
        )  # fmt: skip


def _give(pipe: IO[bytes], given: Given) -> None:
    message = pickle.dumps(given)
    pipe.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    pipe.flush()


def _replaced(told: SnapshotStart, **more: object) -> SnapshotStart:
    from msgspec.structs import replace  # noqa: PLC0415

    return replace(told, **more)
