"""Opening a host's store: find it, check that it can be used, otherwise build another one next to it.

A store is only a fold of the log, and a bad one is never repaired. But a log can be lost, and then a store is
the last copy of what it held. So a store is replaced only for a log that is attached and was compared with
it, its place is taken once the log was read up to its end, and until then it stays as it was. While the log
is not known, :func:`open_kept` opens what can be served and changes nothing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import lmdb

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.lineage import Mismatch

from . import folder as folders
from . import layout
from .create import NewStore, Origin
from .examination import (
    AttachedLog,
    BegunExamination,
    Divergence,
    Unusable,
    read_meta,
    why_damaged,
    why_not_served,
    why_not_used,
)
from .layout import NEXT, Current, State, StoreError, hold, read_current, write_current
from .lmdb import Store, mark_mismatch

# Creates a complete environment in the given folder, which must not exist, with rows beyond the given offset.
# Returns False if it cannot; it may then leave an incomplete environment.
Load = Callable[[Path, int], bool]


class NotServable(StoreError):
    """A store cannot be served while its log is not known; the text is a sentence that says why."""


class _Former(NamedTuple):
    """The environment whose place another one takes when it is complete."""

    former: Current
    new: Current
    # How the former one is set aside.
    aside: str


class HeldStore(Store):
    """A store together with the lock that keeps other nodes away from its folder."""

    def __init__(
        self,
        path: Path,
        map_bytes: int,
        lock_fd: int,
        *,
        read_only: bool = False,
        far_behind: bool = False,
        former: _Former | None = None,
    ) -> None:
        super().__init__(path, map_bytes, read_only=read_only, far_behind=far_behind)
        self._lock_fd = lock_fd
        self._former = former

    def complete(self) -> None:
        """Record that the log was read up to its end, and take the place of the former store, if any."""
        super().complete()
        if self._former is None:
            return
        former, new, aside = self._former
        try:
            folders.take_over(self.path.parent, new, former, aside)
        except OSError as error:
            raise StoreError(f"the store {self.path} cannot take the place of the former: {error}") from error
        self._former, self.former_served = None, False

    def set_mismatch(self, mismatch: Mismatch | None) -> None:
        """Record the finding, also for readers of the former store while they may serve that."""
        changed = mismatch != self.mismatch
        super().set_mismatch(mismatch)
        if changed and self.former_served and self._former is not None:
            mark_mismatch(self.path.parent / self._former.former.name, mismatch)

    def close(self) -> None:
        """Close the store, see :meth:`.lmdb.Store.close`; another node may then open the folder."""
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
    load: Load | None = None,
    divergence: Divergence = lambda _: None,
    stale: Callable[[int], str] = lambda _: "",
    begun: BegunExamination | None = None,
) -> tuple[Store, list[str]]:
    """Open the store in folder ``path`` for this log, which is attached; return it with messages.

    Another store is built next to the current one, and takes its place by :meth:`Store.complete`, if that is
    of another fold version, of another log or ahead of ``log_end``, if it was open when the machine crashed,
    holds records that the log has lost (``divergence``) or was away for too long (``stale``), or if ``load``
    provides rows beyond it. A damaged one is set aside at once. ``begun``: its examination, if there is one.
    Raises :class:`StoreError` if another process has the folder open or it cannot be written.
    """
    log = AttachedLog(log_identity, log_end, divergence, stale)
    lock_fd = _lock(path)
    try:
        return _open(path, log, map_bytes, fold, load, lock_fd, begun)
    except (OSError, lmdb.Error) as error:
        os.close(lock_fd)
        raise StoreError(f"the store in {path} cannot be opened: {error}") from error
    except BaseException:
        os.close(lock_fd)
        raise


def open_kept(
    path: Path,
    *,
    map_bytes: int = layout.MAP_BYTES,
    fold: int = FOLD_VERSION,
    begun: BegunExamination | None = None,
) -> Store:
    """Open the current store in folder ``path`` while its log is not known, to serve reads from it.

    Nothing is replaced, set aside or removed. A store of a former fold version is opened read-only. Raises
    :class:`NotServable` if there is none that can be served, and :class:`StoreError` as :func:`open_store`.
    """
    lock_fd = _lock(path)
    try:
        current = _servable(path, fold, begun)
        version = read_meta(path / current.name)[layout.META_FOLD]
        return HeldStore(path / current.name, map_bytes, lock_fd, read_only=version != b"%d" % fold)
    except (OSError, lmdb.Error) as error:
        os.close(lock_fd)
        raise StoreError(f"the store in {path} cannot be opened: {error}") from error
    except BaseException:
        os.close(lock_fd)
        raise


def known_log(path: Path) -> str | None:
    """Return the identity of the log that the store in folder ``path`` was built from; ``None``: no store."""
    current = read_current(path)
    return current.log if current else None


def _lock(path: Path) -> int:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return hold(path)
    except OSError as error:
        raise StoreError(f"cannot create a store in {path}: {error}") from error


def _open(
    path: Path,
    log: AttachedLog,
    map_bytes: int,
    fold: int,
    load: Load | None,
    lock_fd: int,
    begun: BegunExamination | None,
) -> tuple[Store, list[str]]:
    current, messages = read_current(path), list[str]()
    if current is None and any(folders.environments(path)):
        text = f"The file {layout.CURRENT} in {path} does not name the current store"
        messages.append(f"{text}. The rows are rebuilt from the log.")
    folders.tidy(path, log.identity, (current, read_current(path, NEXT)))
    why = None if current is None else why_not_used(path / current.name, log, fold, begun)
    if current is not None and why is not None and why.aside == layout.DAMAGED:
        kept = folders.set_aside(path, current.name, why.aside)
        messages.append(f"{why.text}.{kept} The rows are rebuilt from the log.")
        current = why = None
    building = _building(path, current, log, fold)
    if why is not None and building is None:
        messages.append(f"{why.text}. It is kept until the rows have been rebuilt from the log.")
    usable = building or (current if why is None else None)
    target = (
        _load_snapshot(path, usable, log.identity, load)
        or usable
        or _make(path, log.identity, map_bytes, fold)
    )
    if building is not None and target != building:
        shutil.rmtree(path / building.name, ignore_errors=True)
    if current is None or target == current:
        folders.publish(path, target)
        write_current(path, target)
        (path / NEXT).unlink(missing_ok=True)
        far_behind = log.end - applied_in(path / target.name) >= layout.FAR_BEHIND
        return HeldStore(path / target.name, map_bytes, lock_fd, far_behind=far_behind), messages
    write_current(path, target, NEXT)
    folders.publish(path, target)
    former = _Former(current, target, layout.OUTDATED if why is None else why.aside)
    # Readers may have it open, and ids of another log mean nothing in this one.
    other_log = why if why is not None and why.aside == layout.OTHER_LOG else None
    mark_mismatch(path / current.name, Mismatch(other_log.text) if other_log else None)
    far_behind = log.end - applied_in(path / target.name) >= layout.FAR_BEHIND
    store = HeldStore(path / target.name, map_bytes, lock_fd, far_behind=far_behind, former=former)
    store.former_served = why is None or why.servable
    return store, messages


def _building(path: Path, current: Current | None, log: AttachedLog, fold: int) -> Current | None:
    """Return the environment that an earlier process was building, if it can be continued.

    Otherwise it is removed, because it was never complete.
    """
    building = read_current(path, NEXT)
    if building is None or building == current or not (path / building.name).exists():
        return None
    why: Unusable | None = why_not_used(path / building.name, log, fold)
    if why is None:
        return building
    shutil.rmtree(path / building.name, ignore_errors=True)
    return None


def _servable(path: Path, fold: int, begun: BegunExamination | None) -> Current:
    """Return the current environment, or one that was set aside for it while the log was not yet read.

    Raises :class:`NotServable`.
    """
    current = read_current(path)
    if current is None:
        raise NotServable(f"There is no store in {path}")
    outdated = sorted(path.glob(f"{layout.PREFIX}*{layout.OUTDATED}"), reverse=True)
    why = _why_kept_back(path / current.name, fold, begun, in_doubt=bool(outdated))
    if not why:
        return current
    for folder in outdated:
        if not _why_kept_back(folder, fold) and read_meta(folder)[layout.META_LOG] == current.log.encode():
            restored = Current(folder.name.removesuffix(layout.OUTDATED), current.log)
            folder.rename(path / restored.name)
            write_current(path, current, NEXT)
            write_current(path, restored)
            return restored
    raise NotServable(why)


def _why_kept_back(
    folder: Path, fold: int, begun: BegunExamination | None = None, *, in_doubt: bool = False
) -> str:
    return why_damaged(folder, begun) or why_not_served(folder, read_meta(folder), fold, in_doubt=in_doubt)


def _make(path: Path, log_identity: str, map_bytes: int, fold: int) -> Current:
    """Create an empty environment."""
    made = Current(folders.free_name(path), log_identity)
    new = path / (made.name + layout.NEW)
    with NewStore(new, map_bytes) as store:
        store.finish(Origin(fold, log_identity, State(0, 0), time.time_ns() // 1_000_000))
    return made


def _load_snapshot(
    path: Path, usable: Current | None, log_identity: str, load: Load | None
) -> Current | None:
    """Have ``load`` create an environment with rows beyond ``usable``; return ``None`` if it did not.

    As that of :func:`_make`, it has its name once it is published.
    """
    if load is None:
        return None
    applied = 0 if usable is None else applied_in(path / usable.name)
    made = Current(folders.free_name(path), log_identity)
    return made if load(path / (made.name + layout.NEW), applied) else None


def applied_in(folder: Path) -> int:
    """Return the offset up to which the rows of an environment hold the log."""
    return State.unpack(read_meta(folder)[layout.META_STATE]).applied
