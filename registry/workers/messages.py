"""What goes through the pipes: pickles, because both ends are ours."""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.parsing.schema_queries import SchemaAnswer, SchemaQuery

READY = b"ready"
"""The first message: the process has started."""


class WorkRequest(NamedTuple):
    """What is asked, and how long the texts may be read and may be compared, in seconds of work.

    ``wall_s``: how long all of it may take by the clock on the wall.
    """

    query: SchemaQuery
    budget_s: float
    reading_s: float
    wall_s: float = 3600.0


class Stuck(NamedTuple):
    """Which part of a query, by its number, was compared in vain, and for how many seconds of work."""

    part: int
    seconds: float


class WorkResult(NamedTuple):
    """The answer, or ``None`` where it would take too long; and how many seconds of work comparing took.

    ``late``: it is the clock on the wall that says so, because the machine has other things to do.
    """

    known: SchemaAnswer | None
    took_s: float
    late: bool = False
    partial: bool = False
    """Of several queries only the first ones are answered: the others would have taken too long."""
    stuck: Stuck | None = None
    """Where comparing, and not reading, took too long."""

    def failures(self) -> list[str]:
        """Return the tracebacks of the errors that nobody expected."""
        told: list[SchemaAnswer | None] = [self.known]
        if self.known is not None and type(self.known.value) is list:
            told += [each for each in self.known.value if isinstance(each, SchemaAnswer)]
        return [each.failure for each in told if each is not None and each.failure is not None]
