"""Opening the store of a host: find it, look whether it may be used, else set it aside and begin another.

A store is only a fold of the log. Whatever is wrong with it, it is never mended: it is set aside, said aloud,
and made again from the log.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import lmdb

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.lineage import Lineage
from registry.processes.lmdb_check import CannotExamine, ask, examine, read_only

from . import layout
from .create import NewStore, Origin
from .layout import Current, State, StoreError, read_current, write_current
from .lmdb import Store
from .lock import hold

_NAME = re.compile(re.escape(layout.PREFIX) + r"(\d+)(" + re.escape(layout.ASIDE) + ")?")


Load = Callable[[Path, int], bool]
"""Makes a complete environment in the folder named, which is not there yet, with rows that are further than
the offset; whether it did. It may leave what it did not complete."""


Divergence = Callable[[Lineage], int | None]
"""See :meth:`registry.log.contract.Log.divergence`."""


class HeldStore(Store):
    """A store together with the lock that keeps other nodes away from its folder."""

    def __init__(self, path: Path, map_bytes: int, lock_fd: int) -> None:
        super().__init__(path, map_bytes)
        self._lock_fd = lock_fd

    def close(self) -> None:
        """See :meth:`.lmdb.Store.close`; another node may then open the folder."""
        if self._closed:
            return
        try:
            super().close()
        finally:
            os.close(self._lock_fd)


def open_store(
    path: Path,
    log_identity: str,
    log_end: int,
    *,
    map_bytes: int = layout.MAP_BYTES,
    fold: int = FOLD_VERSION,
    unfit: str = "",
    load: Load | None = None,
    divergence: Divergence = lambda _: None,
) -> tuple[Store, list[str]]:
    """The store in folder ``path`` for this log, and what there is to say about how it was found.

    ``unfit`` is the caller's reason why the one that is there cannot be used. Such a store, and one that is
    damaged, of another fold, of another log or ahead of ``log_end``, or that was open when
    the machine went down, is set aside and an empty one begun. ``load`` may bring rows that are further than
    those that are there: then they take their place. A store that holds what the log has lost, as
    ``divergence`` tells, is set aside too. Raises :class:`StoreError` when another process has the folder or
    nothing can be made in it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock_fd = hold(path)
    except OSError as error:
        raise StoreError(f"no store can be kept in {path}: {error}") from error
    try:
        current = read_current(path)
        messages = list(_refusals(path, current, log_identity, log_end, fold, divergence))
        if unfit and current is not None:
            messages = [f"The store {path / current.name} cannot go on: {unfit}"]
        if current is None or messages:
            messages = _set_aside(path, current, messages)
            current = None
        _tidy(path, current)
        current = (
            _loaded(path, current, log_identity, load)
            or current
            or _make(path, log_identity, map_bytes, fold)
        )
        _tidy(path, current)
        return HeldStore(path / current.name, map_bytes, lock_fd), messages
    except (OSError, lmdb.Error) as error:
        os.close(lock_fd)
        raise StoreError(f"the store in {path} cannot be opened: {error}") from error
    except BaseException:
        os.close(lock_fd)
        raise


def known_log(path: Path) -> str | None:
    """Identity of the log that the store in folder ``path`` was made from: a log that ought to be there."""
    current = read_current(path)
    return current.log if current else None


class Standing(NamedTuple):
    """How far a store is."""

    applied: int
    at_end_ms: int
    """When it last was at the log's end."""
    lineage: Lineage
    """What is remembered of the log up to there; nothing in stores of older versions."""


def peek(path: Path) -> Standing | None:
    """How far the store in folder ``path`` is, if it can be read: it may outlive its log."""
    current = read_current(path)
    said = ask("registry.store.check", str(path / current.name), "standing") if current else None
    if not said:
        return None
    applied, at_end_ms, *lineage = said.split()
    try:
        return Standing(int(applied), int(at_end_ms), Lineage.unpack(bytes.fromhex("".join(lineage))))
    except ValueError:
        return None


def _refusals(
    path: Path,
    current: Current | None,
    log_identity: str,
    log_end: int,
    fold: int,
    divergence: Divergence,
) -> Iterator[str]:
    """Why the current store cannot be used; nothing when it can or there is none."""
    if current is None:
        if any(_NAME.fullmatch(entry.name) for entry in path.iterdir()):
            yield f"Which store in {path} is the current one is not to be read from its file {layout.CURRENT}"
        return
    folder = path / current.name
    if condemned := _condemned(folder):
        yield f"The store {folder} is damaged: {condemned}"
        return
    try:
        findings = examine("registry.store.check", folder)
    except CannotExamine as error:
        raise StoreError(str(error)) from error
    if findings:
        yield f"The store {folder} is damaged: {'; '.join(findings)}"
        return
    meta = _meta(folder)
    if meta[layout.META_LOG].decode() != log_identity:
        yield f"The store {folder} was made from another log"
    elif meta[layout.META_FOLD] != b"%d" % fold:
        yield f"The store {folder} has rows of fold {meta[layout.META_FOLD].decode()}; this is fold {fold}"
    elif meta[layout.META_CLEAN] != b"1" and meta[layout.META_BOOT] != (layout.boot_id() or None):
        yield f"The store {folder} was open when the machine went down"
    elif (applied := State.unpack(meta[layout.META_STATE]).applied) > log_end:
        yield f"The store {folder} has applied the log up to offset {applied}, but the log ends at {log_end}"
    elif (departed := divergence(Lineage.unpack(meta.get(layout.META_LINEAGE, b"")))) is not None:
        yield (
            f"The store {folder} cannot go on: the log has lost records and grown again; from offset "
            f"{departed} or earlier on, up to {log_end}, it does not have those that the store holds up to "
            f"{applied}"
        )


def _condemned(folder: Path) -> str:
    try:
        return (folder / layout.CONDEMNED).read_text(errors="replace")
    except OSError:
        return ""


def _meta(folder: Path) -> dict[bytes, bytes]:
    with (
        read_only(folder, layout.TABLES) as env,
        env.begin(env.open_db(layout.META, create=False)) as txn,
        txn.cursor() as cursor,
    ):
        return dict(cursor)


def _set_aside(path: Path, current: Current | None, reasons: list[str]) -> list[str]:
    """Rename the current store; the messages with what became of it. One is kept, older ones go."""
    if current is None:
        return [f"{reason}. The rows are made again from the log." for reason in reasons]
    for other in path.glob(f"{layout.PREFIX}*{layout.ASIDE}"):
        shutil.rmtree(other, ignore_errors=True)
    folder = path / current.name
    aside = folder.with_name(folder.name + layout.ASIDE)
    kept = ""
    if folder.exists():
        folder.rename(aside)
        kept = f" It was set aside as {aside}."
    return [f"{reason}.{kept} The rows are made again from the log." for reason in reasons]


def _make(path: Path, log_identity: str, map_bytes: int, fold: int) -> Current:
    """A new, empty store, made current."""
    current = Current(_free_name(path), log_identity)
    with NewStore(path / current.name, map_bytes) as store:
        store.finish(Origin(fold, log_identity, State(0, 0), time.time_ns() // 1_000_000))
    write_current(path, current)
    return current


def _loaded(path: Path, current: Current | None, log_identity: str, load: Load | None) -> Current | None:
    """The environment that ``load`` made, as the current one; ``None`` where it made none."""
    if load is None:
        return None
    applied = 0 if current is None else State.unpack(_meta(path / current.name)[layout.META_STATE]).applied
    made = Current(_free_name(path), log_identity)
    if not load(path / made.name, applied):
        return None
    write_current(path, made)
    return made


def _free_name(path: Path) -> str:
    numbers = [int(match[1]) for entry in path.iterdir() if (match := _NAME.fullmatch(entry.name))]
    return f"{layout.PREFIX}{max(numbers, default=0) + 1}"


def _tidy(path: Path, current: Current | None) -> None:
    """Remove what a process that was killed while it made or replaced a store has left."""
    for entry in path.iterdir():
        match = _NAME.fullmatch(entry.name)
        if match and not match[2] and (current is None or entry.name != current.name):
            shutil.rmtree(entry, ignore_errors=True)
