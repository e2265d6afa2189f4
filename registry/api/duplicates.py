"""What is registered twice over, but for its spelling; and what a registration has registered again."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import orjson

from registry.domain.lookup import duplicates
from registry.domain.lookup.duplicates import Content, Group, Scope
from registry.domain.parsing.querying import Querying
from registry.domain.rows.layout import View
from registry.domain.schemas import InvalidSchema

from .answers import Answer, Header
from .operations import Call, Operation
from .parameters import DELETED, LIMIT, OFFSET, limit, offset, word

GROUPS_MAX = 100
"""Told in one answer."""
SCOPES_MAX = 4
"""Searched at the same time; of more, those that were asked for last."""
VERSIONS_MAX = 1_000
"""Told of one group."""
_PAGES = 2_000
"""Of 4 KiB: what is known is held in memory so far, and beyond in a file that nobody sees."""
_TABLES = {"forms": "type, md5", "found": "search, type, form, md5, key", "many": "search, type, form"}
"""And their keys."""
_VERSION = re.compile(rb'\{"id":-?[0-9]+,"version":([0-9]+),')


class Duplicates:
    """What this process has found out. For one thread.

    A scope is searched piece by piece, one piece a request, until all has been seen; whoever asks for the
    first page of a scope that has been searched begins anew, which takes no reading for what is known.
    """

    def __init__(self) -> None:
        self._known = _Known()
        self._searches: dict[Scope, _Search] = {}

    def list_duplicates(self, call: Call, view: View) -> Querying[Answer]:
        """``GET /schemas/duplicates``."""
        scope = Scope(call.args["subjectPrefix"], call.args["deleted"])
        begin = offset(call.args)
        part = slice(begin, begin + limit(call.args, GROUPS_MAX))
        search = self._search(scope, anew=part.start == 0)
        if not search.complete:
            yield from search.proceed(call, view)
        told = (
            duplicates.group_entity(view, scope, each) for each in self._known.groups(search.number, part)
        )
        found = {
            "complete": search.complete,
            "examined": search.examined,
            "groups": [each for each in told if each is not None],
        }
        search.told = search.complete
        return Answer(orjson.dumps(found))

    def _search(self, scope: Scope, *, anew: bool) -> _Search:
        search = self._searches.pop(scope, None)
        if search is None or (search.told and anew):
            search = _Search(self._known, scope, 0 if search is None else search.number)
        self._searches[scope] = search
        while len(self._searches) > SCOPES_MAX:
            oldest = next(iter(self._searches))
            self._known.forget(self._searches.pop(oldest).number)
        return search


class _Search:
    """A walk over the versions of a scope."""

    def __init__(self, known: _Known, scope: Scope, number: int) -> None:
        """``number``: that of the search that this one follows; 0 where there was none."""
        self.number = number or known.number()
        self.complete = False
        self.told = False
        """Whether somebody knows that it is complete."""
        self.examined = 0
        """Version rows."""
        self._known = known
        self._scope = scope
        self._end = b""
        known.forget(self.number)

    def proceed(self, call: Call, view: View) -> Querying[None]:
        """One piece further."""
        piece = duplicates.next_piece(
            view, self._scope, self._end, self._known, call.settings.duplicates_at_once
        )
        self._known.learn((yield from duplicates.forms(view, piece.unknown)))
        self._known.put(self.number, piece.held)
        self.examined += piece.rows
        self.complete = piece.end is None
        self._end = piece.end or b""


class _Known:
    """Normal forms by content, and what each search has come by, in a database without a name."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._numbers = 0
        run = self._database.execute
        run("PRAGMA journal_mode = OFF")
        run("PRAGMA synchronous = OFF")
        run(f"PRAGMA cache_size = {_PAGES}")
        for table, key in _TABLES.items():
            more = ", form" if table == "forms" else ""
            run(f"CREATE TABLE {table} ({key}{more}, PRIMARY KEY ({key})) WITHOUT ROWID")

    def number(self) -> int:
        """A number for a search."""
        self._numbers += 1
        return self._numbers

    def __contains__(self, content: object) -> bool:
        return isinstance(content, Content) and self._form(content) is not None

    def _form(self, content: Content) -> bytes | None:
        chosen = self._database.execute("SELECT form FROM forms WHERE type = ? AND md5 = ?", content)
        found: tuple[bytes] | None = chosen.fetchone()
        return None if found is None else found[0]

    def learn(self, forms: Mapping[Content, bytes]) -> None:
        """Remember normal forms."""
        pairs = [(*content, form) for content, form in forms.items()]
        self._database.executemany("INSERT OR REPLACE INTO forms VALUES (?, ?, ?)", pairs)

    def put(self, search: int, held: Iterable[tuple[Content, bytes]]) -> None:
        """A search has come by these contents, whose normal forms are known, and the keys of their rows."""
        run = self._database.execute
        run("BEGIN")
        for content, key in held:
            group = (search, content.schema_type, self._form(content))
            run("INSERT OR IGNORE INTO found VALUES (?, ?, ?, ?, ?)", (*group, content.md5, key))
            others = "SELECT 1 FROM found WHERE search = ? AND type = ? AND form = ? AND md5 <> ? LIMIT 1"
            if run(others, (*group, content.md5)).fetchone() is not None:
                run("INSERT OR IGNORE INTO many VALUES (?, ?, ?)", group)
        run("COMMIT")

    def groups(self, search: int, part: slice) -> list[Group]:
        """What a search has found to be the same, by type and normal form."""
        chosen = self._database.execute(
            "SELECT type, form FROM many WHERE search = ? ORDER BY type, form LIMIT ? OFFSET ?",
            (search, part.stop - part.start, part.start),
        )
        return [
            Group(schema_type, form, self._held(search, schema_type, form))
            for schema_type, form in chosen.fetchall()
        ]

    def _held(self, search: int, schema_type: str, form: bytes) -> dict[bytes, list[bytes]]:
        chosen = self._database.execute(
            "SELECT md5, key FROM found WHERE search = ? AND type = ? AND form = ? ORDER BY md5, key LIMIT ?",
            (search, schema_type, form, VERSIONS_MAX),
        )
        held: dict[bytes, list[bytes]] = {}
        for md5, key in chosen:
            held.setdefault(md5, []).append(key)
        return held

    def forget(self, search: int) -> None:
        """Drop what a search has found."""
        for table in ("found", "many"):
            self._database.execute(f"DELETE FROM {table} WHERE search = ?", (search,))  # noqa: S608 (our own)


def equal_to(call: Call, view: View, answer: Answer) -> Querying[Sequence[Header]]:
    """``X-Registry-Equal-To`` on what a registration answers: an earlier version that says the same."""
    version = _VERSION.match(answer.body)
    if version is None or version[1] == b"1":
        return ()
    try:
        found = yield from duplicates.equal_to(view, call.subject, int(version[1]))
    except InvalidSchema:
        return ()
    return () if found is None else ((b"x-registry-equal-to", b"%d" % found),)


def operations() -> tuple[Operation, ...]:
    """The resources of one process, which remembers what it has found."""
    return (
        Operation(
            method="GET",
            path="/schemas/duplicates",
            summary="Schemas that are equal once they are normalised",
            handler=Duplicates().list_duplicates,
            gives="Duplicates",
            parameters=(
                word("subjectPrefix", "Beginning of the qualified name; nothing: the default context"),
                DELETED,
                OFFSET,
                LIMIT,
            ),
        ),
    )
