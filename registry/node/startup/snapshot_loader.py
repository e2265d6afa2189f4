"""Loading of a snapshot in a child process, and verification of its rows in another while the node serves.

The first process frees the loader's libraries and memory when it ends. Failures are reported, and the node
reads the log instead. It checks the hashes of the snapshot's parts against the manifest, but not the digest
of the rows, which would double the time of a start: the second process computes that later. If it is wrong,
the store is condemned, the snapshot is never loaded again, and the node starts over without it.
"""

from __future__ import annotations

import logging
import pickle
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import orjson

from registry.base.config.settings import Settings
from registry.base.processes.child_process import module_command
from registry.base.processes.forked_process import ForkedProcess
from registry.domain.log_format.lineage import Lineage
from registry.log.contract import Log, LogError
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.store.check import WRONG
from registry.store.layout import DamagedStore
from registry.store.lmdb import Store
from snapshots.catalogue.open import manifest_keys
from snapshots.loading.candidates import TargetLog, add_rejected, read_rejected, reason_lost_records
from snapshots.loading.load_newest import LoadRequest

from .load_process import LENGTH_BYTES, LoadInput
from .progress import StartProgress

_LOOK_S = 0.1
LoadProcess = subprocess.Popen[bytes] | ForkedProcess

_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT}
_log = logging.getLogger(__name__)


def begin() -> LoadProcess:
    """Start a process that gets ready to load a snapshot; it ends when its input is closed.

    Raises :class:`OSError`.
    """
    command, environment = module_command("registry.node.startup.load_process")
    # A process group of its own, so that Ctrl-C in a terminal does not interrupt it.
    return subprocess.Popen(  # noqa: S603 (ours)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=0
    )


def fork() -> LoadProcess:
    """Do the same sooner, in a process that has a single thread."""
    from . import load_process  # noqa: PLC0415 (a program of its own otherwise)

    return ForkedProcess(load_process.main, "registry-load")


def end(process: LoadProcess) -> None:
    """End a process of :func:`begin` or :func:`fork` that is not needed."""
    with process:
        process.kill()


def load_in_child(
    settings: Settings,
    log: Log,
    folder: Path,
    applied: int,
    starting: StartProgress,
    begun: LoadProcess | None = None,
) -> bool:
    """Load a snapshot of ``log`` that is ahead of offset ``applied`` into the LMDB environment ``folder``.

    ``begun`` is the process of :func:`fork`, if that was called. Return true if a snapshot was loaded;
    otherwise the folder is removed. Raises :class:`.progress.Stopped`.
    """
    taken = False
    try:
        taken = _load_next(settings, log, folder, applied, starting, begun)
    finally:
        if not taken:
            shutil.rmtree(folder, ignore_errors=True)
    return taken


def _load_next(
    settings: Settings,
    log: Log,
    folder: Path,
    applied: int,
    starting: StartProgress,
    begun: LoadProcess | None,
    refused: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    wanted = LoadRequest(
        _situation(settings, log, folder.parent, refused), applied, settings.snapshots_load_ahead, folder,
        settings.store_map_bytes, manifest_keys(settings),
    )  # fmt: skip
    try:
        process = begun or begin()
        with starting.loading(process.kill), process:
            chosen, taken = _follow(process, LoadInput(settings, wanted), starting, log)
    except _OtherHistory as other:
        shutil.rmtree(folder, ignore_errors=True)
        return _load_next(settings, log, folder, applied, starting, None, {**refused, other.id: other.why})
    except OSError as error:
        starting.record_refusal(f"No snapshot can be loaded: {error}")
        return False
    if code := process.returncode:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if -code == signal.SIGBUS:
            how += f"; the disk may be full under {settings.data}"
        elif chosen:
            # Such as for lack of memory: an older snapshot may be smaller, or sound.
            shutil.rmtree(folder, ignore_errors=True)
            why = f"the process that loaded it ended ({how})"
            return _load_next(settings, log, folder, applied, starting, None, {**refused, chosen: why})
        starting.record_refusal(f"No snapshot was loaded: the loading process ended ({how})")
        taken = ""
    starting.record_end(taken, wanted.situation.end)
    return bool(taken)


def _situation(settings: Settings, log: Log, store: Path, refused: Mapping[str, str]) -> TargetLog:
    retention_ms = log.tombstone_retention_ms
    if isinstance(log, EmbeddedLog):
        # The node's own store has applied all records that compaction removes; a snapshot may not have.
        retention_ms = round(settings.tombstone_retention_s * 1000)
    margin_ms = round(settings.end_age_margin_s * 1000)
    known = {**read_rejected(store), **refused}
    return TargetLog(log.identity, log.end(), retention_ms, margin_ms, now_ms(), known)


class _OtherHistory(Exception):
    """A snapshot that does not belong to the history of this log."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(why)
        self.id, self.why = id, why


def _follow(process: LoadProcess, load: LoadInput, starting: StartProgress, log: Log) -> tuple[str, str]:
    """Process reports until the process ends; return the ids of the snapshots that it chose last and loaded.

    Both are empty if there is none. Raises :class:`_OtherHistory` if it chooses a snapshot with records that
    ``log`` has lost.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    chosen = taken = ""
    try:
        _send(process.stdin, load)
        # Keep its input open; the process ends when that is closed, as it is when this process ends.
        for line in process.stdout:
            report = orjson.loads(line)
            if "chosen" in report:
                _check_history(report, log)
                chosen = report["chosen"]
            starting.on_report(report)
            taken = report.get("taken", taken)
    except BaseException:
        process.kill()
        raise
    return chosen, taken


def _check_history(chosen: dict[str, Any], log: Log) -> None:
    """Raise :class:`_OtherHistory` if the snapshot does not match ``log`` as it is now."""
    try:
        divergence = log.divergence(Lineage.unpack(bytes.fromhex(chosen["lineage"])))
    except LogError as error:
        raise _OtherHistory(chosen["chosen"], f"it cannot be compared with the log: {error}") from error
    if divergence is not None:
        raise _OtherHistory(chosen["chosen"], reason_lost_records(divergence))


def _send(pipe: IO[bytes], load: LoadInput) -> None:
    message = pickle.dumps(load)
    pipe.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    pipe.flush()


def verify_digest(store: Store, stopping: threading.Event) -> None:
    """Verify the digest of rows loaded from a snapshot; do nothing if that was done before.

    Raises :class:`DamagedStore` if it is wrong. Returns early if ``stopping`` is set.
    """
    snapshot = store.loaded_from
    if not snapshot:
        return
    began = time.monotonic()
    command, environment = module_command("registry.store.check", str(store.path), "digest")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:  # noqa: S603 (ours)
        while process.poll() is None:
            if stopping.wait(_LOOK_S):
                process.kill()
                return
        assert process.stdout is not None
        found = process.stdout.read().decode(errors="replace")
    code = process.returncode
    if -code in _CRASHES:
        found = f"its rows cannot be read ({signal.Signals(-code).name})"
    elif code not in (0, WRONG):
        _log.warning("cannot compute the digest of the snapshot %s (exit code %d)", snapshot, code)
        return
    if found:
        add_rejected(
            store.path.parent,
            snapshot,
            f"when loaded, {found.replace('its', 'the', 1)}",
        )
        store.condemn(found)
        raise DamagedStore(
            f"the store {store.path}, loaded from the snapshot {snapshot}, is damaged: {found}"
        )
    store.mark_verified()
    _log.info("the rows of the snapshot %s give its digest, as added up in %.1f s",
              snapshot, time.monotonic() - began)  # fmt: skip
