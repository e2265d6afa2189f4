"""A list that an operation answers with, and the cursors that lead from page to page."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgspec

from registry.domain.rows.blocks import Skip
from registry.domain.rows.view import View

from .answers import Header
from .parameters import INT_MAX

_T = TypeVar("_T")

Mark = tuple[Any, ...]
"""Where an item stands in its list: texts and numbers that a cursor can carry."""


class Cursor(NamedTuple):
    """Where a page begins."""

    list: str  # the identity of the list that it is of
    skip: int = 0  # how many items to leave out from there
    mark: Mark | None = None  # of the item behind which it begins; None: at the list's start

    def text(self) -> str:
        """Return the query parameter."""
        return urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a query parameter. Raises :class:`ValueError` for what :meth:`text` did not give."""
        raw = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=cls)


@dataclass(frozen=True, slots=True)
class Listing(Generic[_T]):
    """A page of a list, walked in slices after the handler has found that there is no error.

    ``walk`` begins behind a mark and yields ``None`` for what it looks at and leaves out (see
    :mod:`registry.domain.queries.sorting`).
    """

    walk: Callable[[View, Any], Iterator[_T | None]]
    printed: Callable[[_T], bytes]
    mark: Callable[[_T], Mark]
    begin: Cursor
    limit: int
    unsettled: int = 0  # items between the mark and the place that the cursor means
    headers: tuple[Header, ...] = ()
    media_type: bytes | None = None
    leaping: Callable[[View, Any, Skip], Iterator[_T | None]] | None = None  # ``walk``, passing what it may
    head: bytes = b"["  # before the items; a list may be the last member of an object
    tail: bytes = b"]"

    @property
    def limited(self) -> bool:
        """True if there may be a further page."""
        return self.limit != INT_MAX
