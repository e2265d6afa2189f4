"""The search index in an LMDB environment of its own, so that its pages are not those of the store.

Tables: ``words`` has, for each key of :mod:`registry.domain.lookup.search`, the numbers of its subjects;
``subjects`` has, for each number, what was indexed and the subject's name; ``meta`` the format and the
:class:`.view.Progress`. All of it follows from rows: an index that is foreign, damaged or was open when the
machine crashed is removed, and built again. So is one that was opened again and again without a step of work
in between, because reading damaged pages may kill the process each time. A word may name a subject that has
changed since; searches take names from here, and all that they show from the rows.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import lmdb

from registry.domain.errors import INDEX_INCOMPLETE
from registry.store.layout import READERS_MAX, boot_id

from .view import (
    DamagedIndex,
    IndexView,
    Progress,
    SearchIndexError,
    Update,
    pack,
    progress_in,
    write_progress,
)

_log = logging.getLogger(__name__)

# Another one for each change of what is stored, or of what words are.
FORMAT: Final = b"registrar-search 4"
# The second one, of a file with this inode: a reader has found it damaged.
_FILE, _DAMAGED = "data.mdb", "damaged-%d"
_TABLES: Final = (b"words", b"subjects", b"meta")
_FORMAT, _BOOT, _OPENED = b"format", b"boot", b"opened"
# So often it may be opened without a step of work in between.
OPENED_MAX: Final = 10
# Tables of :meth:`SearchIndex.append`.
WORDS, SUBJECTS = 0, 1
_META: Final = 2
_DAMAGES: Final = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.PanicError)


def _size_of(env: lmdb.Environment) -> int:
    """Return the size of the pages in use; reads only the first ones."""
    size: int = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    return size


def _times_opened(env: lmdb.Environment, path: Path) -> int | None:
    """Return how often an index was opened without a step; 0 if closed, ``None`` if it cannot be trusted."""
    # Reading pages that a file lacks would kill the process, again and again.
    if (path / _FILE).stat().st_size < _size_of(env):
        return None
    meta = env.open_db(b"meta", create=False)
    with env.begin(meta) as txn:
        known, boot, opened = (txn.get(each) or b"" for each in (_FORMAT, _BOOT, _OPENED))
    on_disk = opened == b"0" or boot == boot_id() != b""
    return int(opened) if known == FORMAT and on_disk else None


class _File(NamedTuple):
    """The file of an index that is open."""

    env: lmdb.Environment
    # By :data:`WORDS`, :data:`SUBJECTS` and :data:`_META`.
    tables: tuple[Any, Any, Any]
    inode: int


class SearchIndex:
    """The index in folder ``path``; ``writable`` for the one process that fills it."""

    def __init__(self, path: Path, map_bytes: int, *, writable: bool = False) -> None:
        self.path = path
        self._map_bytes = map_bytes
        self._writable = writable
        self._opening = threading.Lock()
        self._file: _File | None = None
        # How often it was opened until it was worked with.
        self._opened = 0
        # For what a build writes besides; removed once it is complete.
        self.files = path / "files"

    @property
    def is_open(self) -> bool:
        """True while the index is open for writing."""
        return self._writable and self._file is not None

    def open(self) -> None:
        """Open the index for writing. Raises :class:`SearchIndexError`."""
        try:
            try:
                self._create()
            except (DamagedIndex, *_DAMAGES):
                shutil.rmtree(self.path)
                self._create()
        except (OSError, lmdb.Error) as error:
            raise SearchIndexError(f"the index in {self.path} cannot be opened: {error}") from error

    def _create(self) -> None:
        """Open the index; one that cannot be used is removed first."""
        opened = self._times_opened() if self.path.exists() else 0
        if opened is None or opened >= OPENED_MAX or self.is_condemned:
            shutil.rmtree(self.path)
            opened = 0
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        env = lmdb.open(
            str(self.path), map_size=self._map_bytes, max_dbs=3, mode=0o600, sync=False, metasync=False,
            max_readers=READERS_MAX,
        )  # fmt: skip
        with env.begin(write=True) as txn:
            tables = (
                env.open_db(b"words", txn, dupsort=True, dupfixed=True),
                env.open_db(b"subjects", txn),
                env.open_db(b"meta", txn),
            )
            self._opened = opened + 1
            for name, value in ((_FORMAT, FORMAT), (_BOOT, boot_id()), (_OPENED, b"%d" % self._opened)):
                txn.put(name, value, db=tables[_META])
            is_built = progress_in(txn, tables[_META]).is_built
        env.sync(True)  # from here on a crash of the machine is detected
        self._file = _File(env, tables, self._find_inode())
        if is_built:
            shutil.rmtree(self.files, ignore_errors=True)

    def _times_opened(self) -> int | None:
        """Return the same as the function for a file that may be none of ours."""
        try:
            with lmdb.open(str(self.path), map_size=self._map_bytes, max_dbs=3, create=False) as env:
                return _times_opened(env, self.path)
        except (OSError, ValueError, lmdb.Error):
            return None

    @contextmanager
    def view(self) -> Iterator[IndexView | None]:
        """Open a view of the index; ``None`` if there is none yet.

        Raises :class:`SearchIndexError`; in a reader 503, and the node builds an index that is damaged again.
        """
        file = self._refresh()
        if file is None:
            yield None
            return
        try:
            with file.env.begin() as txn:
                yield IndexView(txn, *file.tables)
        except (lmdb.Error, DamagedIndex) as error:
            failure = error if isinstance(error, DamagedIndex) else self._failure("read", error)
            if self._writable:
                raise failure from error
            if isinstance(failure, DamagedIndex):
                self._condemn(file.inode, failure)
            raise INDEX_INCOMPLETE() from error

    def _condemn(self, inode: int, failure: DamagedIndex) -> None:
        # The node may have replaced that file meanwhile; the one that is there now is then not meant.
        mark = self.path / (_DAMAGED % inode)
        if mark.exists():
            return
        _log.warning("%s", failure)
        with suppress(OSError):
            mark.touch()

    @property
    def is_condemned(self) -> bool:
        """True if a reader has found damage in the file that is there now."""
        return (self.path / (_DAMAGED % self._find_inode())).exists()

    def _find_inode(self) -> int:
        """Return that of the file that is there now; 0 if there is none."""
        try:
            return (self.path / _FILE).stat().st_ino
        except OSError:
            return 0

    def _failure(self, done: str, error: lmdb.Error) -> SearchIndexError:
        kind = DamagedIndex if isinstance(error, _DAMAGES) else SearchIndexError
        return kind(f"the index in {self.path} cannot be {done}: {error}")

    def _refresh(self) -> _File | None:
        """Return the file; readers open it once it is there, and again if it is replaced."""
        if self._writable:
            return self._file
        with self._opening:
            inode = self._find_inode()
            if not inode:
                return None
            if self._file is None or inode != self._file.inode:
                self._open_existing(inode)
            return self._file

    def _open_existing(self, inode: int) -> None:
        self._file = None
        with suppress(OSError, ValueError, lmdb.Error):
            env = lmdb.open(
                str(self.path), map_size=self._map_bytes, max_dbs=3, readonly=True, create=False,
                max_readers=READERS_MAX,
            )  # fmt: skip
            # Before the node has opened it, it may be one that a crash of the machine has left.
            if _times_opened(env, self.path) is not None:
                words, subjects, meta = (env.open_db(each, create=False) for each in _TABLES)
                self._file = _File(env, (words, subjects, meta), inode)

    def change(self, updates: Iterable[Update], progress: Progress) -> None:
        """Write changes and progress in one transaction. Raises :class:`SearchIndexError`."""
        assert self._file is not None
        words, subjects, _ = self._file.tables
        added: dict[bytes, list[bytes]] = defaultdict(list)
        with self._writing(progress) as txn, txn.cursor(words) as cursor:
            for number, now, new, old in sorted(updates, key=itemgetter(0)):
                if now is None:
                    txn.delete(number, db=subjects)
                else:
                    txn.put(number, pack(now), db=subjects)
                for key in new - old:
                    added[key].append(number)
                for key in old - new:
                    if cursor.set_key_dup(key, number):
                        cursor.delete()
            # In the table's order, for which only the keys are left to be sorted.
            cursor.putmulti((key, number) for key in sorted(added) for number in added[key])

    def append(self, items: Iterable[tuple[bytes, bytes]], table: int, progress: Progress) -> Progress:
        """Append items of a build to a table, each above all that it has; return the progress, written too.

        Raises :class:`SearchIndexError`.
        """
        assert self._file is not None
        with self._writing(progress) as txn, txn.cursor(self._file.tables[table]) as cursor:
            consumed, added = cursor.putmulti(items, append=True)
            if consumed != added:
                raise DamagedIndex(f"the index in {self.path} already has what is added to it")
        return progress

    def trust(self) -> None:
        """Note that a step was done since it was opened, so it is not what kills the process.

        Raises :class:`SearchIndexError`.
        """
        if self._opened > 1 and self._file is not None:
            try:
                with self._file.env.begin(self._file.tables[_META], write=True) as txn:
                    self._note_work(txn)
            except lmdb.Error as error:
                raise self._failure("written", error) from error

    def _note_work(self, txn: lmdb.Transaction[bytes]) -> None:
        assert self._file is not None
        self._opened = 1
        txn.put(_OPENED, b"1", db=self._file.tables[_META])

    @contextmanager
    def _writing(self, progress: Progress) -> Iterator[lmdb.Transaction[bytes]]:
        assert self._file is not None
        try:
            with self._file.env.begin(write=True) as txn:
                yield txn
                write_progress(txn, self._file.tables[_META], progress)
                self._note_work(txn)
        except lmdb.MapFullError as error:
            raise SearchIndexError(
                f"the index in {self.path} has reached its map size (setting store_map_bytes)"
            ) from error
        except lmdb.Error as error:
            raise self._failure("written", error) from error

    def reset(self) -> None:
        """Begin with an empty index; readers open it instead. Raises :class:`SearchIndexError`."""
        file, self._file = self._file, None
        if file is not None:
            file.env.close()
        try:
            shutil.rmtree(self.path)
        except OSError as error:
            raise SearchIndexError(f"the index in {self.path} cannot be removed: {error}") from error
        self.open()

    def release_slots(self) -> int:
        """Release the pages that killed readers hold, which could not be used again; return how many did."""
        return 0 if self._file is None else self._file.env.reader_check()

    def bytes_used(self) -> int:
        """Return the size of the pages in use."""
        file = self._refresh()
        return 0 if file is None else _size_of(file.env)

    def close(self) -> None:
        """Release the index; one that was written is marked as complete on disk."""
        file, self._file = self._file, None
        if file is None:
            return
        env = file.env
        if self._writable:
            with suppress(lmdb.Error):
                env.sync(True)
                with env.begin(file.tables[_META], write=True) as txn:
                    txn.put(_OPENED, b"0")
                env.sync(True)
        env.close()
