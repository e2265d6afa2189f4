"""Parameters of a request for a page of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from xxhash import xxh3_64_hexdigest

from registry.domain.errors import UNPROCESSABLE
from registry.domain.rows.view import Skip, View

from .listing import Cursor, Listing, Mark
from .operations import Call
from .parameters import CURSOR, INT_MAX, LIMIT, OFFSET, limit, offset

_T = TypeVar("_T")
_PAGING = {OFFSET.name, LIMIT.name, CURSOR.name}
# As in the keys of rows, which hold numbers in eight bytes at most.
_NUMBER_MAX = 2**63 - 1
NOT_OURS = "cursor is not from a Link header"


def page(
    call: Call,
    walk: Callable[[View, Any], Iterator[_T | None]],
    printed: Callable[[_T], bytes],
    mark: Callable[[_T], Mark],
    kinds: tuple[type, ...],
    *,
    limit_max: int = INT_MAX,
    skipping: Callable[[View, Any, Skip], Iterator[_T | None]] | None = None,
) -> Listing[_T]:
    """Return the page that a call asks for; ``kinds``: the types of a mark's members.

    ``skipping``: the same walk, able to skip blocks of items without listing them.

    Raises 422 for a negative offset and for a cursor of another list.
    """
    skipped, begin = offset(call.args), cursor_of(call, kinds)
    unsettled, begin = begin.skip, begin._replace(skip=begin.skip + skipped)
    return Listing(walk, printed, mark, begin, limit(call.args, limit_max), unsettled, skipping=skipping)


def whole(
    walk: Callable[[View], Iterator[_T | None]],
    printed: Callable[[_T], bytes],
    *,
    head: bytes = b"[",
    tail: bytes = b"]",
) -> Listing[_T]:
    """Return a list without pages, between ``head`` and ``tail``."""
    return Listing(
        lambda view, _: walk(view), printed, lambda _: (), Cursor(""), INT_MAX, head=head, tail=tail
    )


def cursor_of(call: Call, kinds: tuple[type, ...]) -> Cursor:
    """Return the cursor of a call, or that of the list's start. Raises 422 as :func:`page` does."""
    identity = _identity(call)
    text = call.args[CURSOR.name]
    if not text:
        return Cursor(identity)
    try:
        found = Cursor.parse(text)
    except ValueError:
        raise UNPROCESSABLE(NOT_OURS) from None
    if found.list != identity:
        raise UNPROCESSABLE("cursor belongs to another list or to another filter")
    mark = found.mark
    if not _is_number(found.skip) or (mark is not None and not _is_mark(mark, kinds)):
        raise UNPROCESSABLE(NOT_OURS)
    return found


def _is_mark(mark: Mark, kinds: tuple[type, ...]) -> bool:
    return tuple(map(type, mark)) == kinds and all(_is_number(each) for each in mark if type(each) is int)


def _is_number(value: int) -> bool:
    """Return true if a cursor of ours can hold the number: a count, an id, a version or an offset."""
    return 0 <= value <= _NUMBER_MAX


def _identity(call: Call) -> str:
    """Return a key of this list and its filters."""
    chosen = {name: value for name, value in call.args.items() if name not in _PAGING}
    listed = repr((call.operation, sorted(call.path.items()), sorted(chosen.items())))
    return xxh3_64_hexdigest(listed.encode(errors="surrogatepass"))
