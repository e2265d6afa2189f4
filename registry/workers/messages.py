"""Messages between the parent and its worker processes: pickles, since both ends run the same code."""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.parsing.schema_queries import SchemaAnswer, SchemaQuery

# The first message: the process has started.
READY = b"ready"


class WorkRequest(NamedTuple):
    """A query and its limits: the seconds of work allowed for parsing and for comparing.

    ``wall_s``: the wall-clock time allowed for all of it.
    """

    query: SchemaQuery
    budget_s: float
    reading_s: float
    wall_s: float = 3600.0


class Stuck(NamedTuple):
    """The number of the query part whose comparison did not finish, and the seconds of work spent on it."""

    part: int
    seconds: float


class WorkResult(NamedTuple):
    """The answer, or ``None`` if it would take too long, and the seconds of work spent comparing.

    ``late``: the wall-clock limit was exceeded because the machine is busy.
    """

    known: SchemaAnswer | None
    took_s: float
    late: bool = False
    # Only the first of several queries are answered; the others would have taken too long.
    partial: bool = False
    # Set if comparing, not parsing, took too long.
    stuck: Stuck | None = None

    def failures(self) -> list[str]:
        """Return the tracebacks of unexpected errors."""
        answers: list[SchemaAnswer | None] = [self.known]
        if self.known is not None and type(self.known.value) is list:
            answers += [each for each in self.known.value if isinstance(each, SchemaAnswer)]
        return [each.failure for each in answers if each is not None and each.failure is not None]
