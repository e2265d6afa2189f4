"""Computations that ask what schemas say, and leave it to their caller to find the answers.

A :data:`Querying` is a generator. It yields what it needs to know, is sent the answers, and returns its
result: ``text = yield from canonical(source)``. So it is written once, and knows neither how long a query
takes nor where it is answered. :meth:`.parser.Parser.run` answers everything itself;
:meth:`.parser.Parser.attempt` answers what is small, or says what it lacks.

An attempt that lacks an answer is dropped with all that it has done, since the rows that it read move on. The
next one begins with the answer, over the rows of its own moment. So a computation changes nothing but what is
remembered of schemas, and its result holds for one view.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from registry.domain.schemas import Change, Difference, Fingerprints, Tagged

from .schema_queries import PAUSE, SchemaQuery, Source, What

T = TypeVar("T")


class All(NamedTuple, Generic[T]):
    """Computations that can be run in this order; the answer is the list of their results.

    If one lacks an answer the others are run all the same, so that what all of them lack is asked at once.
    ``refusal``: see :class:`Unanswered`.
    """

    steps: Iterable[Querying[T]]
    refusal: str = ""


class First(NamedTuple, Generic[T]):
    """Computations in a row; the answer is the first result that is not ``None``, else ``None``.

    If one lacks an answer, the next ones are run for what they lack, more of them in each attempt.
    """

    steps: Iterable[Querying[T | None]]


class Paused(Exception):
    """Raised where a computation yields ``PAUSE`` while others are to go first. What it remembered stays."""


Needed: TypeAlias = SchemaQuery | All[Any] | First[Any]
Querying: TypeAlias = Generator[Needed, Any, T]


class Unanswered(NamedTuple):
    """A query that was too large for an attempt. With the answer, the next attempt gets further.

    ``refusal``: what to tell a client where that takes too long.
    """

    query: SchemaQuery
    refusal: str = "The schema takes too long to read"


def together(steps: Iterable[Querying[T]], refusal: str = "") -> Querying[list[T]]:
    """Return the results of computations, asking for what all of them lack at once; see :class:`All`."""
    found: list[T] = yield All(steps, refusal)
    return found


def first(steps: Iterable[Querying[T | None]]) -> Querying[T | None]:
    """Return the first result that is not ``None``; see :class:`First`."""
    found: T | None = yield First(steps)
    return found


def pause() -> Querying[None]:
    """Let others go first where more is done than one attempt may; raises :class:`Paused` then."""
    yield PAUSE


# What a schema says: the members of schemas.Schema and Format. All raise InvalidSchema.


def canonical(source: Source) -> Querying[str]:
    """Return the text that is stored."""
    return _asked("canonical", source)


def normalized(source: Source) -> Querying[str]:
    """Return the text that is stored when normalisation is asked for."""
    return _asked("normalized", source)


def check(source: Source) -> Querying[None]:
    """Check the schema itself."""
    return _asked("check", source)


def check_fields(source: Source) -> Querying[None]:
    """Check what ``validateFields`` demands besides."""
    return _asked("check_fields", source)


def field_names(source: Source) -> Querying[frozenset[str]]:
    """Return the names of the top-level fields."""
    return _asked("field_names", source)


def formatted(source: Source, format: str) -> Querying[str]:
    """Return the text in a ``format`` of the API."""
    return _asked("formatted", source, format=format)


def fingerprints(source: Source) -> Querying[Fingerprints]:
    """Return digests that are equal for schemas that are equivalent."""
    return _asked("fingerprints", source)


def tags(source: Source) -> Querying[Sequence[Tagged]]:
    """Return what carries tags."""
    return _asked("tags", source)


def retagged(
    source: Source, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()
) -> Querying[str]:
    """Return the text with other tags."""
    return _asked("retagged", source, add=tuple(add), remove=tuple(remove), also=tuple(also))


def equivalent(source: Source, other: Source) -> Querying[bool]:
    """Check if two schemas say the same."""
    return _asked("equivalent", source, other)


def passes(new: Source, old: Source, readers: Sequence[str], policy: str, key: bytes) -> Querying[bool]:
    """Check if there are no differences, with each of the ``readers`` as the reader.

    ``key`` stands for all that is asked.
    """
    return _asked("passes", new, old, key=key, policy=policy, readers=readers)


def differences(reader: Source, writer: Source, **options: Any) -> Querying[Sequence[Difference]]:
    """Return why ``reader`` cannot read data of ``writer``. Raises :class:`.schemas.Exhausted` besides."""
    return _asked("differences", reader, writer, **options)


def changes(reader: Source, writer: Source, **options: Any) -> Querying[Sequence[Change]]:
    """Return all changes. Raises :class:`.schemas.Exhausted` besides."""
    return _asked("changes", reader, writer, **options)


def _asked(what: What, source: Source, other: Source | None = None, **details: Any) -> Querying[Any]:
    return (yield SchemaQuery(what, source, other, tuple(sorted(details.items()))))
