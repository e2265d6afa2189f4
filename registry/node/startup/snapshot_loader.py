"""Having a snapshot taken by another process, which takes its libraries and its memory away with it.

Whatever goes wrong there is said, and the log is read instead.
"""

from __future__ import annotations

import pickle
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import orjson

from registry.config.settings import Settings
from registry.domain.log_format.lineage import Lineage
from registry.log.contract import Log, LogError
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.processes.commands import module_command
from snapshots.loading.candidates import TargetLog, reason_lost_records
from snapshots.loading.load_newest import LoadRequest
from snapshots.loading.rejected import read_rejected

from .load_process import LENGTH_BYTES, Given
from .progress import StartProgress


def begin() -> subprocess.Popen[bytes]:
    """A process that makes itself ready to load a snapshot. It ends with its input. Raises OSError."""
    command, environment = module_command("registry.node.startup.load_process")
    # Arrow's own allocators keep what is freed.
    environment.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # So does an arena for each thread.
    environment.setdefault("MALLOC_ARENA_MAX", "1")
    # In a group of its own: who interrupts a terminal's does not mean it.
    return subprocess.Popen(  # noqa: S603 (ours)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=0
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """It is not needed."""
    with process:
        process.kill()


def have_taken(
    settings: Settings,
    log: Log,
    folder: Path,
    applied: int,
    starting: StartProgress,
    begun: subprocess.Popen[bytes] | None = None,
) -> bool:
    """Whether a snapshot of ``log`` that is ahead of ``applied`` is the environment ``folder`` now.

    ``begun``: what :func:`begin` gave, if it was called. Raises :class:`.progress.Stopped`. Where it
    is not, nothing is left of the folder.
    """
    taken = False
    try:
        taken = _have_taken(settings, log, folder, applied, starting, begun)
    finally:
        if not taken:
            shutil.rmtree(folder, ignore_errors=True)
    return taken


def _have_taken(
    settings: Settings,
    log: Log,
    folder: Path,
    applied: int,
    starting: StartProgress,
    begun: subprocess.Popen[bytes] | None,
    refused: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    wanted = LoadRequest(
        _situation(settings, log, folder.parent, refused), applied, settings.snapshots_load_ahead, folder,
        settings.store_map_bytes,
    )  # fmt: skip
    try:
        process = begun or begin()
        with starting.loading(process.kill), process:
            taken = _heard(process, Given(settings, wanted), starting, log)
    except _OtherHistory as other:
        shutil.rmtree(folder, ignore_errors=True)
        return _have_taken(settings, log, folder, applied, starting, None, {**refused, other.id: other.why})
    except OSError as error:
        starting.refused(f"No snapshot can be loaded: {error}")
        return False
    if code := process.returncode:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if -code == signal.SIGBUS:
            how += f"; there may be no room left on the disk under {settings.data}"
        starting.refused(f"No snapshot was loaded: the process that should has ended ({how})")
        taken = ""
    starting.ended(taken, wanted.situation.end)
    return bool(taken)


def _situation(settings: Settings, log: Log, store: Path, refused: Mapping[str, str]) -> TargetLog:
    retention_ms = log.tombstone_retention_ms
    if isinstance(log, EmbeddedLog):
        # Its own store has applied whatever it forgets; a snapshot has not.
        retention_ms = round(settings.tombstone_retention_s * 1000)
    margin_ms = round(settings.end_age_margin_s * 1000)
    known = {**read_rejected(store), **refused}
    return TargetLog(log.identity, log.end(), retention_ms, margin_ms, now_ms(), known)


class _OtherHistory(Exception):
    """A snapshot is not of this log's history."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(why)
        self.id, self.why = id, why


def _heard(process: subprocess.Popen[bytes], given: Given, starting: StartProgress, log: Log) -> str:
    """Listen until the process ends; the id of the snapshot that it has taken, if it says so.

    Raises :class:`_OtherHistory` when it loads a snapshot of records that ``log`` has lost.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    taken = ""
    try:
        _give(process.stdin, given)
        # Its input stays open: the end of that, as of this process, would be its own.
        for line in process.stdout:
            told = orjson.loads(line)
            if "chosen" in told:
                _check_history(told, log)
            starting.heard(told)
            taken = told.get("taken", taken)
    except BaseException:
        process.kill()
        raise
    return taken


def _check_history(chosen: dict[str, Any], log: Log) -> None:
    """Raise :class:`_OtherHistory` if the snapshot is not of ``log`` as it is now."""
    try:
        divergence = log.divergence(Lineage.unpack(bytes.fromhex(chosen["lineage"])))
    except LogError as error:
        raise _OtherHistory(chosen["chosen"], f"it could not be compared with the log: {error}") from error
    if divergence is not None:
        raise _OtherHistory(chosen["chosen"], reason_lost_records(divergence))


def _give(pipe: IO[bytes], given: Given) -> None:
    message = pickle.dumps(given)
    pipe.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    pipe.flush()
