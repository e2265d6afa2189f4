"""The counts of who asks for schemas: a SQLite file next to the store, of the last days.

They belong to this node: they are no part of the log, of snapshots or of backups, and nothing but answers
about them depends on the file.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from registry.api.asks import Ask, Asker, Asks, LocalAsks, Thing, today
from registry.domain.errors import UNAVAILABLE

# Of one day: askers with what they asked for. With 400 days a file has at most some 2 GB.
ROWS_A_DAY_MAX: Final = 20_000
# Askers with what they asked for in one answer; those that asked last.
ROWS_SHOWN_MAX: Final = 5_000
# The number of the tables below: a file with others, of another release, is replaced.
_FORMAT: Final = 1
_TABLES = """
create table if not exists asks (
    name text, version int, principal text, address text, agent text, kind text, day int, requests int,
    primary key (name, version, principal, address, agent, kind, day)
) without rowid;
create index if not exists asks_of_day on asks (day);
create table if not exists other (day integer primary key, requests int);
create table if not exists began (day int);
"""
_ADD = """
update asks set requests = requests + ?
where name = ? and version = ? and principal = ? and address = ? and agent = ? and kind = ? and day = ?
"""
_ADD_OTHER = """
insert into other values (?, ?) on conflict do update set requests = requests + excluded.requests
"""
# Twice as many as are shown, to say how many are not.
_FIND = """
select name, version, principal, address, agent, kind, min(day), max(day), sum(requests) from asks
where name in (select value from json_each(?)) and day >= ?
group by name, version, principal, address, agent, kind order by max(day) desc limit 10000
"""
_log = logging.getLogger(__name__)


class AskStore:
    """The counts of the last ``keep_days`` days in the file ``path``; one thread uses it."""

    def __init__(self, path: Path, keep_days: int, day: Callable[[], int] = today) -> None:
        self._keep_days = keep_days
        # Requests since the start that were not counted by asker and thing.
        self.other = 0
        self._path = path
        self._day = day
        self._file: sqlite3.Connection | None = None
        self._error = ""
        # The newest day that was written, and how many rows it has.
        self._newest, self._rows = -1, 0

    def add(self, asks: Asks) -> None:
        """Add what a reader has counted. Raises 503 if it cannot be written."""
        try:
            with self._connect() as file:
                self._begin_day(file, asks.day)
                left = asks.other + sum(each.requests for each in asks.asks if not self._put(file, each))
                if left:
                    file.execute(_ADD_OTHER, (asks.day, left))
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
            raise UNAVAILABLE(f"Cannot write {self._path.name}: {error}") from None
        self.other += left
        self._error = ""

    def find(self, names: Sequence[str]) -> LocalAsks:
        """Return who has asked for things with these names. Raises 503 if it cannot be read."""
        first = self._day() - self._keep_days + 1
        try:
            file = self._connect()
            found = list(_rows(file, names, first))
            (began,) = file.execute("select min(day) from began").fetchone()
            (other,) = file.execute(
                "select coalesce(sum(requests), 0) from other where day >= ?", (first,)
            ).fetchone()
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
            raise UNAVAILABLE(f"Cannot read {self._path.name}: {error}") from None
        shown, more = _newest(found)
        return LocalAsks(shown, max(began, first), other, more)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        if self._file is not None:
            self._file.close()
            self._file, self._newest = None, -1

    def _put(self, file: sqlite3.Connection, ask: Ask) -> bool:
        """Add an ask to its row; return false if there is no room for one."""
        row = (*ask.thing, *ask.asker, ask.last)
        if file.execute(_ADD, (ask.requests, *row)).rowcount:
            return True
        if self._rows >= ROWS_A_DAY_MAX:
            return False
        file.execute("insert into asks values (?, ?, ?, ?, ?, ?, ?, ?)", (*row, ask.requests))
        self._rows += 1
        return True

    def _begin_day(self, file: sqlite3.Connection, day: int) -> None:
        if day == self._newest:
            return
        oldest = day - self._keep_days
        file.execute("delete from asks where day <= ?", (oldest,))
        file.execute("delete from other where day <= ?", (oldest,))
        # Later only if the clock was ahead when the file was made.
        file.execute("update began set day = min(day, ?)", (day,))
        (self._rows,) = file.execute("select count(*) from asks where day = ?", (day,)).fetchone()
        self._newest = day

    def _connect(self) -> sqlite3.Connection:
        if self._file is None:
            try:
                self._file = self._open()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise  # such as a full disk, which says nothing about the file
                _log.warning("%s cannot be read and is replaced by an empty one: %s", self._path, error)
                remove(self._path)
                self._file = self._open()
        return self._file

    def _open(self) -> sqlite3.Connection:
        # Before SQLite does, which would let other users of the host read it.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        file = sqlite3.connect(self._path, timeout=1.0, check_same_thread=False)
        try:
            file.text_factory = _text
            file.execute("pragma journal_mode = wal")
            file.execute("pragma synchronous = normal")
            self._check_format(file)
            file.executescript(_TABLES)
            with file:
                file.execute(
                    "insert into began select ? where not exists (select 1 from began)", (self._day(),)
                )
        except BaseException:
            file.close()
            raise
        return file

    def _check_format(self, file: sqlite3.Connection) -> None:
        (format_,) = file.execute("pragma user_version").fetchone()
        (tables,) = file.execute("select count(*) from sqlite_master").fetchone()
        if tables and format_ != _FORMAT:
            raise sqlite3.DatabaseError(f"it has the format {format_}, and this release {_FORMAT}")
        file.execute(f"pragma user_version = {_FORMAT}")

    def _fail(self, error: Exception) -> None:
        if str(error) != self._error:
            _log.warning("cannot count which clients ask for schemas: %s: %s", self._path, error)
        self._error = str(error)
        with suppress(sqlite3.Error):
            self.close()
        if _is_damage(error):  # it would fail forever
            with suppress(OSError):
                remove(self._path)


def _is_damage(error: Exception) -> bool:
    """Return true for an error that says that the file is damaged, not that it cannot be written now."""
    return type(error) is sqlite3.DatabaseError or isinstance(error, sqlite3.IntegrityError)


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")  # an error would be one for ever


def remove(path: Path) -> None:
    """Remove the file of the counts, with those that SQLite keeps next to it."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _rows(file: sqlite3.Connection, names: Sequence[str], first: int) -> Iterator[Ask]:
    found = file.execute(_FIND, (msgspec.json.encode(names).decode(), first))
    for name, version, principal, address, agent, kind, *rest in found:
        yield Ask(Asker(principal, address, agent, kind), Thing(name, version), *rest)


def _newest(asks: list[Ask]) -> tuple[list[Ask], int]:
    """Return those that asked last, and how many askers, at least, are left out with the others."""
    if len(asks) <= ROWS_SHOWN_MAX:
        return asks, 0
    asks.sort(key=lambda each: (-each.last, each.asker))
    shown = {each.asker for each in asks[:ROWS_SHOWN_MAX]}
    return asks[:ROWS_SHOWN_MAX], len({each.asker for each in asks} - shown)
