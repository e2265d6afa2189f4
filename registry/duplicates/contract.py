"""The port of searches for duplicates: what is asked, and the lines of the answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final, NamedTuple, Protocol

from registry.domain.lookup.duplicates import Bounds, Duplicates
from registry.security.authorization.permitted_view import Spans

GROUPS_MAX: Final = 200


class SearchRequest(NamedTuple):
    """A search of the rows of this host."""

    # As for ``GET /schemas``.
    prefix: str
    # Include soft-deleted versions.
    deleted: bool
    # The number of groups to list.
    limit: int
    # The subjects that may be seen; ``None``: all.
    spans: Spans | None = None

    @property
    def bounds(self) -> Bounds:
        """The limits of the search and its answer: some 300 MB, and 20,000 versions in 200 groups."""
        return Bounds(schemas=2_000_000, groups=self.limit, contents=10, versions=10)


class Searches(Protocol):
    """Searches for duplicates, one at a time on a host."""

    def lines(self, wanted: SearchRequest) -> AsyncGenerator[bytes]:
        """Search; yield lines of JSON, each an object with one member.

        ``progress`` comes every second or more often, then each ``group``, then ``found``; or at any time
        ``error`` as the last one. The search ends with the generator. Before the first line it raises 429 if
        there is another search, or 503.
        """
        ...


def answer_of(found: Duplicates) -> Iterator[dict[str, Any]]:
    """Yield the lines of a finished search, as objects."""
    for group in found.groups:
        yield {"group": group.as_json()}
    yield {"found": {"groups": found.total, "listed": len(found.groups)}}
