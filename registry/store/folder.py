"""The entries of a store's folder: names, what is set aside, and what may be removed.

An environment that was ever complete is removed only by :func:`remove_rebuilt`: once another one holds the
same log as far or farther, read from the log in this process's life.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from registry.base.processes.lmdb_check import DATA

from . import layout
from .examination import Divergence, find
from .layout import Current, write_current
from .lmdb import Store

_ENDS = "|".join(map(re.escape, (*layout.ASIDE, layout.NEW)))
_NAME = re.compile(re.escape(layout.PREFIX) + rf"(\d+)({_ENDS})?")
_log = logging.getLogger(__name__)


def environments(path: Path) -> Iterator[Path]:
    """Yield the environments in folder ``path``, also those set aside, but none that is being created."""
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name):
        match = _NAME.fullmatch(entry.name)
        if match and match[2] != layout.NEW and (entry / DATA).exists():
            yield entry


def free_name(path: Path) -> str:
    """Return a name that no environment has, also none that was set aside."""
    numbers = [int(match[1]) for entry in path.iterdir() if (match := _NAME.fullmatch(entry.name))]
    return f"{layout.PREFIX}{max(numbers, default=0) + 1}"


def publish(path: Path, made: Current) -> None:
    """Give an environment that was created, if it was, the name by which it is opened."""
    new = path / (made.name + layout.NEW)
    if new.exists():
        new.rename(path / made.name)


def set_aside(path: Path, name: str, suffix: str) -> str:
    """Rename an environment; return a sentence that says so, empty if it does not exist."""
    folder = path / name
    if not folder.exists():
        return ""
    aside = folder.with_name(folder.name + suffix)
    folder.rename(aside)
    return f" It was set aside as {aside}."


def take_over(path: Path, new: Current, former: Current | None, suffix: str) -> None:
    """Make ``new`` the current environment and set the former one aside; :func:`tidy` completes that."""
    write_current(path, new)
    if former is not None:
        set_aside(path, former.name, suffix)
    (path / layout.NEXT).unlink(missing_ok=True)


def tidy(path: Path, log_identity: str, named: Iterable[Current | None]) -> None:
    """Remove what was being created, and set aside environments that are not ``named`` by any file."""
    names = {each.name for each in named if each is not None}
    for entry in list(path.iterdir()):
        match = _NAME.fullmatch(entry.name)
        if not match or match[2] in layout.ASIDE or entry.name in names:
            continue
        if match[2] == layout.NEW or not (entry / DATA).exists():
            shutil.rmtree(entry, ignore_errors=True)
            continue
        found = find(entry)
        kind = layout.OUTDATED if found and found.log == log_identity else layout.OTHER_LOG
        set_aside(path, entry.name, layout.DAMAGED if found is None else kind)


def remove_rebuilt(store: Store, log_identity: str, divergence: Divergence) -> None:
    """Remove the outdated environments next to ``store`` whose rows were read from the attached log again.

    ``store`` was read up to the log's end, as queried. Raises the errors of ``divergence``.
    """
    for folder in store.path.parent.glob(f"{layout.PREFIX}*{layout.OUTDATED}"):
        store.sync()
        found = find(folder)
        if (
            found is None
            or found.log != log_identity
            or found.position.applied > store.applied
            or divergence(found.position.lineage) is not None
        ):
            _log.warning("%s is kept, because it may hold rows that the log lacks", folder)
            with suppress(OSError):
                folder.rename(folder.with_suffix(layout.OTHER_LOG))
            continue
        shutil.rmtree(folder, ignore_errors=True)
        _log.info("the former store %s was removed: its rows were read from the log again", folder)
