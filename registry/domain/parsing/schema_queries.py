"""Schema queries and their answers, as data.

Answers depend on texts only, so a result does not depend on where or when it was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from registry.domain.errors import UNEXPECTED
from registry.domain.schemas import (
    FORMATS,
    LOGICAL,
    STEPS_MAX,
    Budget,
    Dependency,
    Exhausted,
    InvalidSchema,
    Schema,
    Unreadable,
    digest,
)
from registry.domain.schemas.lint import findings

if TYPE_CHECKING:
    from registry.domain.schemas import SchemaField
    from registry.domain.schemas.fields import FieldCounts, FieldDifferences, FieldPage
    from registry.domain.schemas.logical.findings import Report

What = Literal[
    "canonical",
    "normalized",
    "check",
    "check_fields",
    "field_names",
    "text_in",
    "ddl",
    "native",
    "equivalent",
    "fingerprints",
    "differences",
    "changes",
    "passes",
    "logical",
    "lint",
    "tags",
    "retag",
    "fields",
    "field_differences",
    "succession",
    "several",
    "pause",
]


class Source(NamedTuple):
    """The input of a parser; see :meth:`.schemas.Format.parse`."""

    schema_type: str
    text: str
    dependencies: tuple[Dependency, ...] = ()
    new: bool = False

    @property
    def digest(self) -> bytes:
        """16 bytes that identify the source, regardless of ``new``."""
        used = (text for each in self.dependencies for text in (each.name, each.text))
        return digest((self.schema_type, self.text, *used))

    @property
    def characters(self) -> int:
        """Number of characters to parse."""
        own = len(self.text)
        return own + sum(len(each.text) for each in self.dependencies) if self.dependencies else own


class SchemaQuery(NamedTuple):
    """A query about ``source``, named after the member of :class:`.schemas.Schema` that answers it.

    ``differences`` and ``changes`` are those of :class:`.schemas.Format`; the source is the reader, ``other``
    the writer. ``logical`` returns the objections of engines to a new schema, or to its change from
    ``other``; see :mod:`.schemas.logical`. ``ddl`` returns its logical type as text, and ``native`` the
    schema of a source that is such a text. ``lint`` returns what breaks the ``rules`` among the details.
    ``fields`` returns a part of :meth:`.schemas.Format.fields`, which needs no dependencies.
    ``field_differences`` returns the first differences of all fields from those of ``other``.
    ``succession`` returns what the source changes of an earlier schema as ``other``, if there is one, and if
    it may follow that one: at most as much work as the lengths of both allow.
    ``passes`` compares a new schema with an earlier one as ``other``: True if there are no differences with
    each of the ``readers`` among the details as the reader; the ``key`` among them identifies the query.
    ``several`` combines the queries among the details, see :func:`several`.
    """

    what: What
    source: Source
    other: Source | None = None
    # The other arguments by name.
    details: tuple[tuple[str, Any], ...] = ()

    @property
    def parts(self) -> tuple[SchemaQuery, ...]:
        """The single queries."""
        if self.what != "several":
            return (self,)
        parts: tuple[SchemaQuery, ...] = dict(self.details)["queries"]
        return parts

    @property
    def reads_texts(self) -> bool:
        """True if it reads the texts without their dependencies, perhaps besides the schemas."""
        return self.what in ("fields", "field_differences", "native", "succession")

    @property
    def needs_schemas(self) -> bool:
        """True if the sources are parsed for it."""
        return not self.reads_texts or (self.what == "succession" and bool(dict(self.details)["readers"]))

    @property
    def key(self) -> SchemaQuery | bytes:
        """Key under which the answer is remembered: a few bytes for ``passes``, the most frequent query."""
        if self.what != "passes":
            return self
        key: bytes = dict(self.details)["key"]
        return key

    @property
    def digest(self) -> bytes:
        """Some bytes that identify the query, without its texts."""
        other = b"" if self.other is None else self.other.digest
        return self.source.digest + other + digest((self.what, repr(self.details)))

    @property
    def characters(self) -> int:
        """Number of characters to parse for all parts."""
        if self.what == "several":
            return sum(part.characters for part in self.parts)
        sources = dict(self.details).get("sources", (self.source,))
        own: int = sum(each.characters for each in sources)
        return own + (0 if self.other is None else self.other.characters)


class Succession(NamedTuple):
    """The changes that a schema makes to the one before it."""

    # ``None``: its fields cannot be listed, or not those before.
    counts: FieldCounts | None
    # The tags in the schema, sorted.
    tags: tuple[str, ...]
    # Whether the readers among the query's details can read the other's data; ``None``: unknown, or no reader
    # has to.
    compatible: bool | None


class SchemaAnswer(NamedTuple):
    """An answer: a value of the query's type, or the reason why the schema is invalid."""

    value: Any
    invalid: str | None = None
    unreadable: bool = False
    failure: str | None = None  # the traceback of an unexpected error
    exhausted: bool = False  # it takes more steps than a request may

    @property
    def characters(self) -> int:
        """Approximate length in characters."""
        said = self.value
        if type(said) is list:
            return sum(len(str(each)) for each in said)
        return len(said) if type(said) is str else getattr(said, "characters", 0)

    def result(self) -> Any:
        """Return the value.

        Raises :class:`InvalidSchema`, :class:`.schemas.Exhausted`, or 500 after an unexpected error.
        """
        if self.exhausted:
            raise Exhausted
        if self.failure is not None:
            raise UNEXPECTED()
        if self.invalid is not None:
            raise (Unreadable if self.unreadable else InvalidSchema)(self.invalid)
        return self.value


_MESSAGE_MAX: Final = 10_240
_PASSES, _DIFFERS = SchemaAnswer(True), SchemaAnswer(False)

Key: TypeAlias = SchemaQuery | bytes
# Answers by the keys of their queries.
Facts: TypeAlias = Mapping[Key, SchemaAnswer]
NOTHING: Final[Facts] = {}

# Yielded when there is too much work to do at once but nothing to parse: other requests run first.
PAUSE: Final = SchemaQuery("pause", Source("", ""))


def several(queries: Iterable[SchemaQuery]) -> SchemaQuery:
    """Combine queries into one, to be sent in a single message."""
    parts = tuple(dict.fromkeys(part for each in queries for part in each.parts))
    if len(parts) == 1:
        return parts[0]
    return SchemaQuery("several", parts[0].source, None, (("queries", parts),))


def facts(query: SchemaQuery, known: SchemaAnswer) -> dict[Key, SchemaAnswer]:
    """Return the answer and others that follow from it, by key: a canonical text is canonical itself."""
    if query.what == "passes":
        # Shared objects, since each additional one is work for the garbage collector.
        return {query.key: _PASSES if known.value is True else _DIFFERS}
    if query.what == "several":
        pairs = zip(query.parts, known.value, strict=False)  # there may be fewer answers than queries
        return {key: value for part, each in pairs for key, value in facts(part, each).items()}
    found: dict[Key, SchemaAnswer] = {query: known}
    schema_type, text, dependencies, _ = query.source
    if query.what == "canonical" and type(known.value) is str and known.value != text:
        found[SchemaQuery("canonical", Source(schema_type, known.value, dependencies))] = known
    return found


def answer(query: SchemaQuery, read: Callable[[Source], Schema], budget: Budget) -> SchemaAnswer:
    """Answer one query with the schemas that ``read`` returns. Raises :class:`.schemas.Exhausted`."""
    try:
        return SchemaAnswer(_value(query, read, budget))
    except InvalidSchema as error:
        return SchemaAnswer(None, str(error), isinstance(error, Unreadable))


def _value(query: SchemaQuery, read: Callable[[Source], Schema], budget: Budget) -> Any:
    what, source, other, details = query
    if what == "fields":
        return _fields(source, **dict(details))
    if what == "field_differences":
        return _field_differences(source, other, **dict(details))
    if what == "succession":
        return _succession(source, other, read, budget, **dict(details))
    if what == "native":
        return _native(source, budget, **dict(details))
    schema = read(source)
    if what == "lint":
        return findings(schema.elements(), **dict(details))
    if what == "ddl":
        return _ddl(schema, budget, **dict(details))
    if what == "logical":
        return _reports(schema, other and read(other), budget, **dict(details))
    if other is None:
        said = getattr(schema, what)
        return said(**dict(details)) if callable(said) else said
    if what == "equivalent":
        return schema.equivalent(read(other))
    if what == "passes":
        return _passes(source.schema_type, schema, read(other), budget, **dict(details))
    compare = getattr(FORMATS[source.schema_type], what)
    return compare(schema, read(other), budget=budget, **dict(details))


def _fields(source: Source, *, begin: int, end: int, words: tuple[str, ...] | None = None) -> FieldPage:
    from registry.domain.schemas.fields import page_of  # noqa: PLC0415 (only for views that ask)

    served = FORMATS.get(source.schema_type)
    return page_of(iter(()) if served is None else served.fields(source.text), begin, end, words)


def _field_differences(new: Source, old: Source | None, *, most: int) -> FieldDifferences | None:
    from registry.domain.schemas import fields  # noqa: PLC0415 (only for views that ask)

    after = fields.fields_of(FORMATS[new.schema_type], new.text)
    before = [] if old is None else fields.fields_of(FORMATS[old.schema_type], old.text)
    return None if before is None or after is None else fields.field_differences(before, after, most)


# Comparison steps for one succession, and one more for so many characters: a page of them takes few seconds.
_SUCCESSION_STEPS, _CHARACTERS_A_STEP = 10_000, 8


def _succession(
    new: Source,
    old: Source | None,
    read: Callable[[Source], Schema],
    budget: Budget,
    *,
    readers: tuple[Literal["new", "old"], ...],
    policy: str,
) -> Succession:
    compatible: bool | None = None
    if old is not None and readers:
        most = _SUCCESSION_STEPS + (new.characters + old.characters) // _CHARACTERS_A_STEP
        own = Budget(min(budget.left, most))
        pair = read(new), read(old)
        try:
            compatible = _can_read(new.schema_type, *pair, own, policy=policy, readers=readers)
            compatible = compatible and (policy != LOGICAL or not _reports(pair[0], None, own))
        except Exhausted:
            if budget.left < most:
                raise
        except InvalidSchema:
            compatible = False  # as a check says of a schema that cannot be compared, or be no table
        budget.left -= min(budget.left, most) - max(own.left, 0)
    return Succession(*_counts(new, old), compatible)


def _counts(new: Source, old: Source | None) -> tuple[FieldCounts | None, tuple[str, ...]]:
    from registry.domain.schemas.explaining import cut  # noqa: PLC0415 (only for views that ask)
    from registry.domain.schemas.fields import (  # noqa: PLC0415
        TAGS_MAX,
        TYPE_MAX,
        changed_fields,
        count_changes,
        fields_of,
    )

    def find_fields(source: Source) -> list[SchemaField] | None:
        try:
            return fields_of(FORMATS[source.schema_type], source.text)
        except InvalidSchema:
            return None

    after, before = find_fields(new), [] if old is None else find_fields(old)
    names = sorted({tag for each in after or () for tag in each.tags})[:TAGS_MAX]
    tags = tuple(cut(each, TYPE_MAX) for each in names)
    if after is None or before is None:
        return None, tags
    return count_changes(changed_fields(before, after)), tags


def _passes(
    schema_type: str,
    new: Schema,
    old: Schema,
    budget: Budget,
    *,
    key: bytes,
    policy: str,
    readers: Iterable[Literal["new", "old"]],
) -> bool:
    return _can_read(schema_type, new, old, budget, policy=policy, readers=readers)


def _can_read(
    schema_type: str,
    new: Schema,
    old: Schema,
    budget: Budget,
    *,
    policy: str,
    readers: Iterable[Literal["new", "old"]],
) -> bool:
    for reader_is in readers:
        pair = (new, old) if reader_is == "new" else (old, new)
        if FORMATS[schema_type].differences(*pair, reader_is, budget, policy=policy):
            return False
    return policy != LOGICAL or not _reports(new, old, budget, readers=readers)


def _ddl(schema: Schema, budget: Budget, *, subject: str) -> str:
    from registry.domain.schemas.logical.ddl import ddl  # noqa: PLC0415 (only for views that ask)

    return ddl(schema.logical(budget), subject, budget)


def _native(source: Source, budget: Budget, *, subject: str, named: str) -> str:
    """Return the schema that DDL declares; ``named``: the type as the client wrote it.

    Its steps are bounded in worker processes, too: a short text may name long things often.
    """
    from registry.domain.schemas.logical import script, tokens  # noqa: PLC0415 (as above)

    budget = Budget(min(budget.left, STEPS_MAX))
    try:
        declared = script.read(source.text, budget)
    except InvalidSchema as error:
        raise InvalidSchema(f"Invalid logical type schema: {str(error)[:_MESSAGE_MAX]}") from None
    root = tokens.root_name(subject)
    try:
        return FORMATS[source.schema_type].from_logical(declared, root, source.dependencies, budget)
    except InvalidSchema as error:
        reason = str(error)[:_MESSAGE_MAX]  # it may hold any name
        raise InvalidSchema(f"Logical type schema cannot be represented as {named}: {reason}") from None


def _reports(
    new: Schema,
    old: Schema | None,
    budget: Budget,
    *,
    readers: Iterable[str] = (),
    targets: Iterable[str] = (),
) -> list[Report]:
    """Return the reports; an old schema that has no logical type is skipped (Confluent 8.4)."""
    from registry.domain.schemas import logical  # noqa: PLC0415 (only for policies that ask)

    found = new.logical(budget)
    try:
        before = None if old is None else old.logical(budget)
    except InvalidSchema:
        return []
    if targets:
        return logical.target_reports(found, before, targets, budget)
    return logical.logical_reports(found, before, tuple(readers), budget)
