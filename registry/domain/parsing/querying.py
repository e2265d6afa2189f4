"""Computations that yield schema queries and leave it to their caller to answer them.

A :data:`Querying` is a generator. It yields queries, is sent the answers, and returns its result:
``text = yield from canonical(source)``. The computation is thus written once, independent of where a query is
answered and how long that takes. :meth:`.parser.Parser.run` answers all queries itself;
:meth:`.parser.Parser.attempt` answers small ones, or returns those that it lacks.

An attempt that lacks an answer is discarded with all its work, because the rows that it read may change. The
next one starts with the answer, over the current rows. Therefore a computation changes nothing except the
memory of schemas, and its result is valid for one view.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from registry.domain.schemas import Change, Difference, Fingerprints, Tagged
from registry.domain.schemas.lint import Finding

from .schema_queries import PAUSE, SchemaQuery, Source, Succession, What

if TYPE_CHECKING:
    from registry.domain.schemas.fields import FieldDifferences, FieldPage
    from registry.domain.schemas.logical.findings import Report

T = TypeVar("T")


class All(NamedTuple, Generic[T]):
    """Computations that can be run in this order; the answer is the list of their results.

    If one lacks an answer the others still run, so that all missing queries are sent at once.
    ``refusal``: see :class:`Unanswered`.
    """

    steps: Iterable[Querying[T]]
    refusal: str = ""


class First(NamedTuple, Generic[T]):
    """Ordered computations; the answer is the first result that is not ``None``, else ``None``.

    If one lacks an answer, the next ones run to collect their missing queries, more of them in each attempt.
    """

    steps: Iterable[Querying[T | None]]


class Paused(Exception):
    """Raised when a computation yields ``PAUSE`` to let other requests run. Its memory updates are kept."""


Needed: TypeAlias = SchemaQuery | All[Any] | First[Any]
Querying: TypeAlias = Generator[Needed, Any, T]


class Unanswered(NamedTuple):
    """A query that was too large for an attempt. With its answer, the next attempt gets further.

    ``refusal``: the message for the client if the query takes too long.
    """

    query: SchemaQuery
    refusal: str = "The schema takes too long to parse"


def together(steps: Iterable[Querying[T]], refusal: str = "") -> Querying[list[T]]:
    """Return the results of computations, sending all their missing queries at once; see :class:`All`."""
    found: list[T] = yield All(steps, refusal)
    return found


def first(steps: Iterable[Querying[T | None]]) -> Querying[T | None]:
    """Return the first result that is not ``None``; see :class:`First`."""
    found: T | None = yield First(steps)
    return found


def pause() -> Querying[None]:
    """Let other requests run if there is more work than one attempt may do; raises :class:`Paused` then."""
    yield PAUSE


# Queries for the members of schemas.Schema and Format. All raise InvalidSchema.


def canonical(source: Source) -> Querying[str]:
    """Return the text as it is stored."""
    return _ask("canonical", source)


def normalized(source: Source) -> Querying[str]:
    """Return the text as it is stored with normalization."""
    return _ask("normalized", source)


def check(source: Source) -> Querying[None]:
    """Check the schema itself."""
    return _ask("check", source)


def check_fields(source: Source) -> Querying[None]:
    """Check the additional rules of ``validateFields``."""
    return _ask("check_fields", source)


def field_names(source: Source) -> Querying[frozenset[str]]:
    """Return the names of the top-level fields."""
    return _ask("field_names", source)


def format_text(source: Source, format: str) -> Querying[str]:
    """Return the text in a ``format`` of the API."""
    return _ask("text_in", source, format=format)


def ddl(source: Source, subject: str) -> Querying[str]:
    """Return the logical type as DDL, named after ``subject``. Also raises :class:`.schemas.Exhausted`."""
    return _ask("ddl", source, subject=subject)


def native(source: Source, subject: str, named: str) -> Querying[str]:
    """Return the schema that a source in DDL declares, of a type that the client wrote as ``named``.

    Its root is named after ``subject`` if it has no name. Also raises :class:`.schemas.Exhausted`.
    """
    return _ask("native", source, subject=subject, named=named)


def fingerprints(source: Source) -> Querying[Fingerprints]:
    """Return digests that are equal for equivalent schemas."""
    return _ask("fingerprints", source)


def lint(source: Source, rules: Sequence[str]) -> Querying[Sequence[Finding]]:
    """Return what breaks the lint ``rules``."""
    return _ask("lint", source, rules=tuple(rules))


def fields(source: Source, begin: int, end: int, words: tuple[str, ...] | None = None) -> Querying[FieldPage]:
    """Return the fields of a text from ``begin`` on and before ``end``; its dependencies are not needed.

    ``words``: of those fields only in which one of these is found.
    """
    return _ask("fields", source, begin=begin, end=end, words=words)


def tags(source: Source) -> Querying[Sequence[Tagged]]:
    """Return the parts of the schema that carry tags."""
    return _ask("tags", source)


def retag(
    source: Source, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()
) -> Querying[str]:
    """Return the text with tags added and removed."""
    return _ask("retag", source, add=tuple(add), remove=tuple(remove), also=tuple(also))


def equivalent(source: Source, other: Source) -> Querying[bool]:
    """Return true if two schemas have the same meaning."""
    return _ask("equivalent", source, other)


def field_differences(new: Source, old: Source, most: int) -> Querying[FieldDifferences | None]:
    """Return how the fields of two schemas differ; None: there are too many."""
    return _ask("field_differences", new, old, most=most)


def succession(new: Source, old: Source | None, readers: Sequence[str], policy: str) -> Querying[Succession]:
    """Return what a schema changes of the one before it, and if ``readers`` can read the other's data."""
    return _ask("succession", new, old, policy=policy, readers=tuple(readers))


def passes(new: Source, old: Source, readers: Sequence[str], policy: str, key: bytes) -> Querying[bool]:
    """Return true if there are no differences with each of ``readers`` as the reader.

    ``key`` identifies the whole query.
    """
    return _ask("passes", new, old, key=key, policy=policy, readers=readers)


def logical(
    new: Source, old: Source | None = None, readers: Sequence[str] = ()
) -> Querying[Sequence[Report]]:
    """Return the objections of engines to a schema, or to its change from ``old``.

    ``readers``: which of the two must read the other's rows. Also raises :class:`.schemas.Exhausted`.
    """
    return _ask("logical", new, old, readers=tuple(readers))


def targets(new: Source, old: Source | None, names: Sequence[str]) -> Querying[Sequence[Report]]:
    """Return the objections of the targets of these names; else as :func:`logical`."""
    return _ask("logical", new, old, targets=tuple(names))


def differences(reader: Source, writer: Source, **options: Any) -> Querying[Sequence[Difference]]:
    """Return why ``reader`` cannot read data of ``writer``. Also raises :class:`.schemas.Exhausted`."""
    return _ask("differences", reader, writer, **options)


def changes(reader: Source, writer: Source, **options: Any) -> Querying[Sequence[Change]]:
    """Return all changes. Also raises :class:`.schemas.Exhausted`."""
    return _ask("changes", reader, writer, **options)


def _ask(what: What, source: Source, other: Source | None = None, **details: Any) -> Querying[Any]:
    return (yield SchemaQuery(what, source, other, tuple(sorted(details.items()))))
