"""``GET /search``: subjects by the words of their names, fields, types, tags, properties and docs."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

from registry.domain import errors as e
from registry.domain.history.entries import principal_at
from registry.domain.lookup.matching import (
    FIRST,
    NUMBER_BYTES,
    IndexState,
    Matching,
    WordRows,
    after,
    number_of,
)
from registry.domain.lookup.search import KINDS, Match, find_matches, names_all
from registry.domain.model import Subject
from registry.domain.parsing.querying import Querying, together
from registry.domain.queries import entities, versions
from registry.domain.queries.candidates import Owners
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows import layout
from registry.domain.rows.view import View
from registry.domain.schemas.words import query_words

from .answers import Answer, Header, json_answer
from .listing import Cursor
from .operations import Call, Operation, PendingSearch
from .paging import NOT_OURS, cursor_of
from .parameters import CURSOR, number, word, words
from .permissions import SHOWN

HITS_MAX: Final = 100
# Characters and words of a query; subjects that one request examines, and looks into the index for them.
QUERY_MAX: Final = 500
WORDS_MAX: Final = 12
EXAMINED_MAX: Final = 20_000
LOOKS_MAX: Final = 300_000
# The same of a list that is filtered by words, which costs no more than a list of as many subjects.
LISTED_MAX: Final = 100_000
LIST_LOOKS_MAX: Final = 400_000
# Subjects that are found in one view of the index.
_AT_ONCE: Final = 100
# Bytes of the schemas of a page, which are read to show where the words are.
_PAGE_BYTES: Final = 2 << 20
_WHOLE: Final = IndexState(sys.maxsize, complete=True)
_ABSENT: Final = IndexState(0, complete=False, built=0.0)
_NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)


class Words(Protocol):
    """The search index of this host."""

    def view(self) -> AbstractContextManager[WordRows | None]:
        """Open a view of the index; ``None``: there is none yet. Raises 503 if it is damaged."""


class _Place(NamedTuple):
    """The beginning of a page: one of the two parts, by name and all others, and a number in it."""

    part: int
    number: bytes | None


class _Examination:
    """The part of the index that one request has examined."""

    def __init__(self, examined_max: int, looks_max: int) -> None:
        self._examined_max, self._looks_max = examined_max, looks_max
        # Subjects, and looks into the index for the parts that are done.
        self.examined = self.looks = 0
        # Not everything was examined, because the words are in too many names.
        self.cut = False
        # The least of all moments in which the index was read: it may be replaced meanwhile.
        self.state = _WHOLE

    def next_subjects(self, index: Words, matching: Matching) -> list[Subject] | None:
        """Return the next subjects of one moment of the index, of as many as are found in a slice."""
        found: list[Subject] = []
        with index.view() as rows:
            self.state = self.state.least(_ABSENT if rows is None else rows.state())
            if rows is None:
                return None
            for count, number in enumerate(matching.following(rows)):
                subject = None if number is None else rows.subject(number)
                if subject is not None:
                    found.append(subject)
                if number is None or count == _AT_ONCE:
                    break
            else:
                if not found:
                    return None
        self.examined += len(found)
        is_over = self.examined > self._examined_max or self.looks + matching.looks > self._looks_max
        self.cut = self.cut or is_over
        return found


class _Page(_Examination):
    """The subjects of a page, as they are found."""

    def __init__(self, limit: int) -> None:
        super().__init__(EXAMINED_MAX, LOOKS_MAX)
        self._limit = limit
        self._bytes = 0
        self.hits: list[tuple[int, Registered]] = []
        # There are more.
        self.more = False

    def add(self, part: int, found: Registered) -> bool:
        """Add a version; return false if the page was full."""
        size = len(found.row.schema)
        if self.hits and (len(self.hits) == self._limit or self._bytes + size > _PAGE_BYTES):
            self.more = True
            return False
        self._bytes += size
        self.hits.append((part, found))
        return True


def operations(index: Words | None) -> tuple[Operation, ...]:
    """Return the operation; ``index`` is ``None`` where none is kept."""

    def search(call: Call, view: View) -> PendingSearch[_Page]:
        if index is None:
            raise e.SEARCH_OFF()
        return _search(index, call)

    return (
        Operation(
            method="GET",
            path="/search",
            summary="Subjects by words in their names, fields, types, tags, metadata properties and docs",
            permission=SHOWN,
            handler=search,
            response_schema="SearchResults",
            parameters=(
                word("query", "Words that must all be found; each may be the beginning of one"),
                words("kind", f"Where to look: {', '.join(KINDS)}; by default everywhere"),
                number("limit", f"Maximum number of subjects, up to {HITS_MAX}", 20),
                CURSOR,
            ),
            errors=(e.UNPROCESSABLE, e.SEARCH_OFF, e.INDEX_INCOMPLETE),
        ),
    )


def wanted_kinds(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds in which to search, by default all. Raises 422 for others."""
    if not {*given} <= KINDS.keys():
        raise e.UNPROCESSABLE(f"kind must be one of {', '.join(KINDS)}")
    return given or tuple(KINDS)


def wanted_words(query: str) -> tuple[str, ...]:
    """Return the words of a query. Raises 422 if it has none, or too many."""
    wanted = () if len(query) > QUERY_MAX else query_words(query)
    if not 1 <= len(wanted) <= WORDS_MAX:
        raise e.UNPROCESSABLE(f"query must have 1 to {WORDS_MAX} words and at most {QUERY_MAX} characters")
    return wanted


def _search(index: Words, call: Call) -> PendingSearch[_Page]:
    kinds, limit = wanted_kinds(call.args["kind"]), call.args["limit"]
    if not 1 <= limit <= HITS_MAX:
        raise e.UNPROCESSABLE(f"limit is not between 1 and {HITS_MAX}")
    wanted = wanted_words(call.args["query"])
    begin = _place(call)

    def answer(view: View, page: _Page) -> Querying[Answer]:
        found = yield from together(
            find_matches(each, _registered_by(view, each), wanted, kinds) for _, each in page.hits
        )
        hits = [_hit(each, matches) for (_, each), matches in zip(page.hits, found, strict=True)]
        last = page.hits[-1] if page.more else None
        body = {
            "hits": hits,
            "next": None if last is None else _cursor(call, last[0], last[1].subject),
            "cut": page.cut,
            "complete": page.state.complete,
            "built": round(page.state.built, 2),
            "offset": page.state.offset,
        }
        return json_answer(body, headers=_NO_STORE)

    return PendingSearch(lambda view: _find(index, view, wanted, kinds, begin, _Page(limit)), answer)


def _registered_by(view: View, each: Registered) -> str:
    try:
        return principal_at(view, each.subject, each.row.offset)
    except e.RegistryError:
        return ""  # the history may be that of another log


def _place(call: Call) -> _Place:
    mark = cursor_of(call, (int, str)).mark
    if mark is None:
        return _Place(0, FIRST)
    try:
        number = bytes.fromhex(mark[1])
    except ValueError:
        number = b""
    if len(number) != NUMBER_BYTES or mark[0] > 1:
        raise e.UNPROCESSABLE(NOT_OURS)
    return _Place(mark[0], after(number))


def _cursor(call: Call, part: int, subject: Subject) -> str:
    mark = (part, number_of(subject).hex())
    return Cursor(cursor_of(call, (int, str)).list, 0, mark).text()


def _find(
    index: Words, view: View, wanted: tuple[str, ...], kinds: tuple[str, ...], begin: _Place, page: _Page
) -> Search[_Page]:
    """Search for a page: first subjects by their names, then all others; hidden ones seem to be missing."""
    parts = (("subject",) if "subject" in kinds else (), kinds)
    for part in range(begin.part, 2):
        matching = Matching(wanted, parts[part], begin.number if part == begin.part else FIRST)
        while (subjects := page.next_subjects(index, matching)) is not None and not page.cut:
            yield
            for subject in subjects:
                if part and parts[0] and names_all(subject.qualified, wanted):
                    continue
                found = versions.latest(view, subject)
                if found is not None and not page.add(part, found):
                    return page
                yield
        page.cut = page.cut or matching.cut
        page.looks += matching.looks
    return page


class WordOwners(NamedTuple):
    """The subjects in which all words of a query are found."""

    owners: Owners
    # There may be more, because the words are in too many of them, or begin too many words.
    cut: bool


def find_owners(index: Words, wanted: tuple[str, ...], kinds: tuple[str, ...]) -> Search[WordOwners]:
    """Search for the subjects in which all words are found, as the index knows them.

    Raises 503 while the index is being built.
    """
    matching, seen = Matching(wanted, kinds), _Examination(LISTED_MAX, LIST_LOOKS_MAX)
    owners: list[bytes] = []
    while (subjects := seen.next_subjects(index, matching)) is not None and not seen.cut:
        owners += (layout.scope_key(layout.VERSION, each)[1:] for each in subjects)
        yield
    if not seen.state.complete:
        raise e.INDEX_INCOMPLETE()
    return WordOwners(Owners(owners), seen.cut or matching.cut)


def _hit(each: Registered, matches: list[Match]) -> dict[str, Any]:
    kind = entities.schema_type(each.row)
    place = {"subject": each.subject.qualified, "version": each.version, "id": each.row.schema_id}
    return {**place, "schemaType": kind, "matches": [_match_members(match) for match in matches]}


def _match_members(match: Match) -> dict[str, Any]:
    kind, path, text = match.item
    return {"kind": kind, "path": path, "text": text, "ranges": match.ranges}
