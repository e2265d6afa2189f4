"""Examination of a host's environments before they are opened: what they hold, and what speaks against them.

All of this only reads. An environment may be damaged, so its pages are first read in another process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from registry.base.processes.lmdb_check import DATA, CannotExamine, Examination, ask, read_only
from registry.domain.fold import former
from registry.domain.log_format.lineage import Lineage

from . import layout
from .layout import State, StoreError, read_current
from .views import StoreView

# The meta rows that say what an environment holds.
_READ = (
    layout.META_FOLD, layout.META_LOG, layout.META_BOOT, layout.META_CLEAN, layout.META_STATE,
    layout.META_AT_END, layout.META_LINEAGE, layout.META_BUILT,
)  # fmt: skip
# See registry.log.contract.Log.divergence.
Divergence = Callable[[Lineage], int | None]


class AttachedLog(NamedTuple):
    """The log that a store is compared with."""

    identity: str
    end: int
    divergence: Divergence
    # Returns why a store that was at the log's end at a time, in ms since the epoch, cannot resume from it.
    stale: Callable[[int], str]


class Unusable(NamedTuple):
    """A reason why a store cannot be used with a log."""

    # How its folder's name ends once it is set aside, one of :data:`.layout.ASIDE`.
    aside: str
    text: str
    # True if its rows may be served until others take their place.
    servable: bool = False


class StorePosition(NamedTuple):
    """A store's position in the log."""

    applied: int
    # When it was last at the log's end, in ms since the epoch.
    at_end_ms: int
    # The lineage of the log up to there; empty in stores of older releases.
    lineage: Lineage


class Found(NamedTuple):
    """An environment that can be read, as far as was looked."""

    log: str
    position: StorePosition


def find(folder: Path) -> Found | None:
    """Return what the environment in ``folder`` is; ``None`` if it cannot be read."""
    return _parse(ask("registry.store.check", str(folder), "standing") or "")


def _parse(answer: str) -> Found | None:
    try:
        log, applied, at_end_ms, *lineage = answer.split()
        unpacked = Lineage.unpack(bytes.fromhex("".join(lineage)))
        return Found(log, StorePosition(int(applied), int(at_end_ms), unpacked))
    except ValueError:
        return None


class BegunExamination:
    """The examination of an environment, begun while other things are imported and opened.

    It counts as long as nobody has written to the environment since, and ends with its ``with`` block. Raises
    :class:`CannotExamine`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._mark = folder, _mark(folder)
        self._examination: Examination | None = Examination("registry.store.check", folder)

    def of(self, folder: Path) -> Examination | None:
        """Return it if it is one of this folder, as that is now."""
        if folder != self._folder:
            return None
        if self._examination is not None and _mark(folder) != self._mark:
            self._discard()
        return self._examination

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._discard()

    def _discard(self) -> None:
        if self._examination is not None:
            self._examination.discard()
            self._examination = None


def _mark(folder: Path) -> tuple[int, int, int] | None:
    try:
        stat = (folder / DATA).stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def begin(path: Path) -> BegunExamination | None:
    """Begin to examine the store in folder ``path``; ``None`` if there is none, or that is not possible."""
    current = read_current(path)
    try:
        return None if current is None else BegunExamination(path / current.name)
    except CannotExamine:
        return None


def peek(path: Path, begun: BegunExamination | None = None) -> StorePosition | None:
    """Return the position of the store in folder ``path``; ``None`` if it cannot be read."""
    current = read_current(path)
    if current is None:
        return None
    folder = path / current.name
    examination = None if begun is None else begun.of(folder)
    found = find(folder) if examination is None else _find_in(examination)
    return None if found is None else found.position


def _find_in(examination: Examination) -> Found | None:
    try:
        return _parse("".join(examination.facts()))
    except CannotExamine:
        return None


def why_not_used(
    folder: Path, log: AttachedLog, fold: int, begun: BegunExamination | None = None
) -> Unusable | None:
    """Return why the environment in ``folder`` cannot follow ``log``; ``None`` if it can.

    Raises :class:`StoreError` if it cannot be examined.
    """
    if damage := why_damaged(folder, begun):
        return Unusable(layout.DAMAGED, damage)
    meta = read_meta(folder)
    same_log = meta[layout.META_LOG].decode() == log.identity
    if same_log and _has_crashed(meta):
        return Unusable(layout.OUTDATED, _of_crash(folder))
    # Before the version: what only this store still holds must not be deleted as outdated.
    if text := _why_of_another_log(meta, log):
        return Unusable(layout.OTHER_LOG, f"The store {folder} {text}")
    why = log.stale(int(meta.get(layout.META_AT_END, b"0")))
    version = meta[layout.META_FOLD].decode()
    if not why and version != str(fold):
        why = f"it has rows of fold version {version}, and this release needs version {fold}"
    if not why:
        return None
    servable = not why_not_served(folder, meta, fold)
    return Unusable(layout.OUTDATED, f"The store {folder} must be rebuilt: {why}", servable)


def why_damaged(folder: Path, begun: BegunExamination | None = None) -> str:
    """Return in a sentence why the environment is damaged; empty if no damage was seen.

    Raises :class:`StoreError` if it cannot be examined.
    """
    try:
        findings = _condemned_reason(folder)
        if not findings:
            examination = (begun and begun.of(folder)) or Examination("registry.store.check", folder)
            findings = "; ".join(examination.findings())
    except CannotExamine as error:
        raise StoreError(str(error)) from error
    return f"The store {folder} is damaged: {findings}" if findings else ""


def why_not_served(folder: Path, meta: dict[bytes, bytes], fold: int, *, in_doubt: bool = False) -> str:
    """Return in a sentence why an undamaged environment cannot serve reads without its log; empty if it can.

    ``in_doubt``: it may be one that an older release was rebuilding.
    """
    version = meta[layout.META_FOLD].decode()
    if _has_crashed(meta):
        return _of_crash(folder)
    if meta.get(layout.META_BUILT, b"0" if in_doubt else b"1") != b"1":
        return f"The store {folder} was not yet built up to the log's end"
    if version == str(fold):
        return ""
    known = former.can_read(version)
    why = _why_not_read(folder, version) if known else "which this release does not know"
    return why and f"The store {folder} has rows of fold version {version}, {why}"


def _why_not_read(folder: Path, version: str) -> str:
    with open_rows(folder) as view:
        lacking = next(former.missing(view, int(version)), None)
    return "" if lacking is None else "which lack rows that this release needs for associations or encryption"


def open_rows(folder: Path) -> StoreView:
    """Return a view of an environment that no process writes to, and that was examined."""
    env = read_only(folder, layout.TABLES)
    rows, meta = env.open_db(layout.ROWS, create=False), env.open_db(layout.META, create=False)
    return StoreView(env.begin(rows), rows, meta)


def read_meta(folder: Path) -> dict[bytes, bytes]:
    """Return those of :data:`_READ` that an examined environment has. Raises :class:`lmdb.Error`."""
    with (
        read_only(folder, layout.TABLES) as env,
        env.begin(env.open_db(layout.META, create=False)) as txn,
    ):
        found = {name: txn.get(name) for name in _READ}
    return {name: value for name, value in found.items() if value is not None}


def _condemned_reason(folder: Path) -> str:
    try:
        return (folder / layout.CONDEMNED).read_text(errors="replace")
    except OSError:
        return ""


def _has_crashed(meta: dict[bytes, bytes]) -> bool:
    """Return true if the environment was open when the machine crashed: any of its pages may be old."""
    return meta[layout.META_CLEAN] != b"1" and meta[layout.META_BOOT] != (layout.boot_id() or None)


def _of_crash(folder: Path) -> str:
    return f"The store {folder} was open when the machine crashed"


def _why_of_another_log(meta: dict[bytes, bytes], log: AttachedLog) -> str:
    """Return why an environment does not hold this log, or not only; empty if it does."""
    applied = State.unpack(meta[layout.META_STATE]).applied
    if meta[layout.META_LOG].decode() != log.identity:
        return "was built from another log"
    if applied > log.end:
        return f"has applied the log up to offset {applied}, but the log ends at {log.end}"
    diverged = log.divergence(Lineage.unpack(meta.get(layout.META_LINEAGE, b"")))
    if diverged is None:
        return ""
    return (
        f"cannot be used: the log has lost records and grown again; from offset {diverged} or earlier on, up "
        f"to {log.end}, it does not have those that the store holds up to {applied}"
    )
