"""Opening a host's store: find it, check that it can be used, otherwise set it aside and create a new one.

A store is only a fold of the log. A bad store is never repaired: it is set aside with a message and rebuilt
from the log.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import lmdb

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.lineage import Lineage
from registry.processes.lmdb_check import CannotExamine, ask, examine, read_only

from . import layout
from .create import NewStore, Origin
from .layout import Current, State, StoreError, hold, read_current, write_current
from .lmdb import Store

_NAME = re.compile(re.escape(layout.PREFIX) + r"(\d+)(" + "|".join(map(re.escape, layout.ASIDE)) + ")?")


# Creates a complete environment in the given folder, which must not exist, with rows beyond the given offset.
# Returns False if it cannot; it may then leave an incomplete environment.
Load = Callable[[Path, int], bool]

# See registry.log.contract.Log.divergence.
Divergence = Callable[[Lineage], int | None]


class Unusable(NamedTuple):
    """A reason why a store cannot be used."""

    # How its folder's name ends once it is set aside, one of :data:`.layout.ASIDE`.
    aside: str
    text: str


class HeldStore(Store):
    """A store together with the lock that keeps other nodes away from its folder."""

    def __init__(self, path: Path, map_bytes: int, lock_fd: int) -> None:
        super().__init__(path, map_bytes)
        self._lock_fd = lock_fd

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
    unfit: str = "",
    load: Load | None = None,
    divergence: Divergence = lambda _: None,
) -> tuple[Store, list[str]]:
    """Open the store in folder ``path`` for this log; return it with messages about what was found.

    A store is set aside and replaced by an empty one if ``unfit`` gives the caller's reason, if it is
    damaged, of another fold version, of another log or ahead of ``log_end``, if it was open when the machine
    crashed, or if it holds records that the log has lost (``divergence``). ``load`` may provide rows beyond
    the store's; they then replace it. Raises :class:`StoreError` if another process has the folder open or it
    cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock_fd = hold(path)
    except OSError as error:
        raise StoreError(f"cannot create a store in {path}: {error}") from error
    try:
        current = read_current(path)
        unusable = _why_unusable(path, current, log_identity, log_end, fold, divergence)
        if unfit and current is not None:
            aside = layout.OUTDATED if unusable is None else unusable.aside
            unusable = Unusable(aside, f"The store {path / current.name} cannot be used: {unfit}")
        messages = []
        if unusable is not None:
            messages = [_set_aside(path, current, unusable)]
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
    """Return the identity of the log that the store in folder ``path`` was built from; ``None``: no store."""
    current = read_current(path)
    return current.log if current else None


class StorePosition(NamedTuple):
    """A store's position in the log."""

    applied: int
    # When it was last at the log's end, in ms since the epoch.
    at_end_ms: int
    # The lineage of the log up to there; empty in stores of older releases.
    lineage: Lineage


def peek(path: Path) -> StorePosition | None:
    """Return the position of the store in folder ``path``; ``None`` if it cannot be read."""
    current = read_current(path)
    answer = ask("registry.store.check", str(path / current.name), "standing") if current else None
    if not answer:
        return None
    applied, at_end_ms, *lineage = answer.split()
    try:
        return StorePosition(int(applied), int(at_end_ms), Lineage.unpack(bytes.fromhex("".join(lineage))))
    except ValueError:
        return None


def _why_unusable(
    path: Path,
    current: Current | None,
    log_identity: str,
    log_end: int,
    fold: int,
    divergence: Divergence,
) -> Unusable | None:
    """Return why the current store cannot be used; ``None`` if it can, or if there is none."""
    if current is None:
        if any(_NAME.fullmatch(entry.name) for entry in path.iterdir()):
            text = f"The file {layout.CURRENT} in {path} does not name the current store"
            return Unusable(layout.DAMAGED, text)
        return None
    folder = path / current.name
    if condemned := _condemned(folder):
        return Unusable(layout.DAMAGED, f"The store {folder} is damaged: {condemned}")
    try:
        findings = examine("registry.store.check", folder)
    except CannotExamine as error:
        raise StoreError(str(error)) from error
    if findings:
        return Unusable(layout.DAMAGED, f"The store {folder} is damaged: {'; '.join(findings)}")
    meta = _meta(folder)
    same_log = meta[layout.META_LOG].decode() == log_identity
    if same_log and meta[layout.META_CLEAN] != b"1" and meta[layout.META_BOOT] != (layout.boot_id() or None):
        return Unusable(layout.DAMAGED, f"The store {folder} was open when the machine crashed")
    # Before the version: what only this store still holds must not be deleted as outdated.
    if text := _why_of_another_log(meta, log_identity, log_end, divergence):
        return Unusable(layout.OTHER_LOG, f"The store {folder} {text}")
    version = meta[layout.META_FOLD].decode()
    if version != str(fold):
        text = f"has rows of fold version {version}, and this release needs version {fold}"
        return Unusable(layout.OUTDATED, f"The store {folder} {text}")
    return None


def _why_of_another_log(
    meta: dict[bytes, bytes], log_identity: str, log_end: int, divergence: Divergence
) -> str:
    """Return why a store does not hold this log, or not only; empty if it does."""
    applied = State.unpack(meta[layout.META_STATE]).applied
    if meta[layout.META_LOG].decode() != log_identity:
        return "was built from another log"
    if applied > log_end:
        return f"has applied the log up to offset {applied}, but the log ends at {log_end}"
    diverged = divergence(Lineage.unpack(meta.get(layout.META_LINEAGE, b"")))
    if diverged is None:
        return ""
    return (
        f"cannot be used: the log has lost records and grown again; from offset {diverged} or earlier on, up "
        f"to {log_end}, it does not have those that the store holds up to {applied}"
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


def _set_aside(path: Path, current: Current | None, unusable: Unusable) -> str:
    """Rename the current store; return the complete message. One is kept, older ones are deleted."""
    if current is None:
        return f"{unusable.text}. The rows are rebuilt from the log."
    for suffix in layout.ASIDE:
        _remove_aside(path, suffix)
    folder = path / current.name
    aside = folder.with_name(folder.name + unusable.aside)
    kept = ""
    if folder.exists():
        folder.rename(aside)
        kept = f" It was set aside as {aside}."
    return f"{unusable.text}.{kept} The rows are rebuilt from the log."


def remove_outdated(path: Path) -> None:
    """Delete a store that was only kept in folder ``path`` until its rows were rebuilt."""
    _remove_aside(path, layout.OUTDATED)


def _remove_aside(path: Path, suffix: str) -> None:
    for folder in path.glob(f"{layout.PREFIX}*{suffix}"):
        shutil.rmtree(folder, ignore_errors=True)


def _make(path: Path, log_identity: str, map_bytes: int, fold: int) -> Current:
    """Create an empty store and make it current."""
    current = Current(_free_name(path), log_identity)
    with NewStore(path / current.name, map_bytes) as store:
        store.finish(Origin(fold, log_identity, State(0, 0), time.time_ns() // 1_000_000))
    write_current(path, current)
    return current


def _loaded(path: Path, current: Current | None, log_identity: str, load: Load | None) -> Current | None:
    """Return the environment that ``load`` has created, as the current one; ``None`` if it created none."""
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
    """Remove what a process has left that was killed while it created or replaced a store."""
    for entry in path.iterdir():
        match = _NAME.fullmatch(entry.name)
        if match and not match[2] and (current is None or entry.name != current.name):
            shutil.rmtree(entry, ignore_errors=True)
