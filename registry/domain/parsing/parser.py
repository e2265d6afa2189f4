"""Parsed schemas, kept for a while, and answers about those that are parsed elsewhere."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar, cast

from registry.domain import errors
from registry.domain.errors import RegistryError
from registry.domain.queries import entities
from registry.domain.queries.versions import Registered
from registry.domain.rows.layout import VersionRow, View
from registry.domain.schemas import (
    FORMATS,
    STEPS_MAX,
    Budget,
    Change,
    Dependency,
    Difference,
    Exhausted,
    Fingerprints,
    InvalidSchema,
    Schema,
    Tagged,
)

from . import references
from .schema_queries import Facts, SchemaAnswer, SchemaQuery, Source, What, answer, several
from .version_index import VersionIndexes

_BYTES_PER_CHARACTER = 16
"""What a parsed schema takes in memory for each character of its text, generously."""

# What the fingerprints of one schema take in memory, with their key.
_FINGERPRINTS_BYTES = 400

# What one verdict that is remembered takes in memory.
VERDICT_BYTES: Final = 300

_NOTHING: Final[Facts] = {}

_Key = tuple[str, str, tuple[Dependency, ...]]
_E = TypeVar("_E")


class TooMuchText(Exception):
    """More would have to be parsed, or compared, than :meth:`Parser.allow` has allowed for.

    What is begun anew with the answer to ``question`` gets further. ``refusal`` is what to tell a client
    where that takes too long.
    """

    def __init__(self, question: SchemaQuery, refusal: str = "The schema takes too long to read") -> None:
        super().__init__(refusal)
        self.question = question
        self.refusal = refusal


AHEAD_MAX = 256
"""Of a row of questions, how many are asked at once at most."""
AHEAD_CHARACTERS_MAX = 8 * 1024 * 1024
"""And how much there may be to read for them, unless it is one question."""


def with_next(first: TooMuchText, rest: Iterator[_E], ask: Callable[[_E], object], count: int) -> TooMuchText:
    """What is too much, and what ``ask`` says is of the next ``count`` in a row: it will be asked next."""
    questions = [first.question]
    characters = characters_of(first.question)
    for each in islice(rest, min(count, AHEAD_MAX)):
        try:
            ask(each)
        except TooMuchText as too_much:
            characters += characters_of(too_much.question)
            if characters > AHEAD_CHARACTERS_MAX:
                break
            questions.append(too_much.question)
        except (RegistryError, InvalidSchema):
            break
    return TooMuchText(several(questions), first.refusal)


def together(found: Sequence[TooMuchText]) -> TooMuchText:
    """All that would be too much, asked at once."""
    compared = (each for each in found if any(part.other is not None for part in each.question.parts))
    return TooMuchText(several(each.question for each in found), next(compared, found[0]).refusal)


def characters_of(question: SchemaQuery) -> int:
    """How much there is to read for all that is asked."""
    sources: Sequence[Source] = dict(question.details).get("sources", ())
    return sum(part.characters for part in question.parts) + sum(each.characters for each in sources)


class Read:
    """A schema as a parser has read it, or will when it is asked and may, or knows it from elsewhere."""

    __slots__ = ("_parser", "schema", "source")

    def __init__(self, parser: Parser, source: Source, schema: Schema | None) -> None:
        self._parser = parser
        self.source = source
        self.schema = schema
        """``None``: it was not read yet. What it says may then raise :class:`TooMuchText`."""

    @property
    def canonical(self) -> str:
        """See :class:`.schemas.Schema`, as for what follows. Raises :class:`InvalidSchema` besides."""
        return self.schema.canonical if self.schema is not None else cast("str", self._told("canonical"))

    @property
    def normalized(self) -> str:
        """The text that is stored when normalisation is asked for."""
        return self.schema.normalized if self.schema is not None else cast("str", self._told("normalized"))

    def equivalent(self, other: Schema) -> bool:
        """Whether both say the same; ``other`` was read by the same parser."""
        assert isinstance(other, Read)
        if self.schema is not None and other.schema is not None:
            return self.schema.equivalent(other.schema)
        return cast("bool", self._told("equivalent", other))

    def fingerprints(self) -> Fingerprints:
        """Digests that are equal for schemas that are equivalent."""
        return self._parser.fingerprints(self)

    def formatted(self, format: str) -> str:
        """The text in a ``format`` of the API."""
        if self.schema is not None:
            return self.schema.formatted(format)
        return cast("str", self._told("formatted", format=format))

    def field_names(self) -> frozenset[str]:
        """Names of the top-level fields."""
        if self.schema is not None:
            return self.schema.field_names()
        return cast("frozenset[str]", self._told("field_names"))

    def check(self) -> None:
        """Check the schema itself."""
        self._told("check")

    def check_fields(self) -> None:
        """What ``validateFields`` demands besides."""
        if self.schema is not None:
            self.schema.check_fields()
        else:
            self._told("check_fields")

    def tags(self) -> Sequence[Tagged]:
        """What carries tags."""
        if self.schema is not None:
            return self.schema.tags()
        return cast("Sequence[Tagged]", self._told("tags"))

    def retagged(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        """The text with other tags."""
        if self.schema is not None:
            return self.schema.retagged(add, remove, also)
        return cast("str", self._told("retagged", add=tuple(add), remove=tuple(remove), also=tuple(also)))

    def _told(self, what: What, other: Read | None = None, **details: Any) -> Any:
        return self._parser.answered(what, self, other, details, None)


class Parser:
    """Parses schemas and remembers the last ones, about ``bytes_max`` bytes of them. For one thread."""

    def __init__(self, bytes_max: int = 32 * 1024 * 1024) -> None:
        self._kept: _Kept[_Key, tuple[Read, bool]] = _Kept(bytes_max)
        self._known: _Kept[SchemaQuery, SchemaAnswer] = _Kept(bytes_max)
        self._fingerprints: _Kept[bytes, SchemaAnswer] = _Kept(bytes_max // 2)
        self.compatible: Final = _Kept[bytes, bool](bytes_max // 2)
        """Comparisons that found no difference: see :mod:`.checks`, which makes the keys."""
        self.indexes: Final = VersionIndexes(bytes_max // 2)
        self._allowed = math.inf
        self._given = _NOTHING
        self._steps: float = STEPS_MAX
        self._budget = Budget()

    def allow(self, characters: float, steps: float = STEPS_MAX, given: Facts = _NOTHING) -> None:
        """From now on parse so much at most; what is remembered costs nothing. ``steps``: of comparing.

        ``characters``: of Avro; those of other formats count as much as reading them costs more.

        ``given``: answers that were found elsewhere for what is begun now.
        """
        self._allowed = characters
        self._given = given
        self._steps = min(steps, STEPS_MAX)
        self._budget = Budget(self._steps)

    def budget(self) -> Budget:
        """What one check of compatibility may take; under a limit, all of what was begun together."""
        return self._budget if self.is_limited else Budget(self._steps)

    @property
    def given(self) -> int:
        """How many answers were found elsewhere for what was begun; twice as many may be asked next."""
        return len(self._given)

    @property
    def is_limited(self) -> bool:
        """Whether another parser may take more steps."""
        return self._steps < STEPS_MAX

    def parse(
        self, schema_type: str, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False
    ) -> Read:
        """The schema that ``text`` says; ``new`` as in :class:`.schemas.Format`.

        Raises :class:`InvalidSchema`, also for a type that is not served. What is too much to parse is not
        looked at before it is asked something.
        """
        key = (schema_type, text, tuple(dependencies))
        kept = self._kept.get(key)
        if kept is not None and (kept[1] or not new):
            return kept[0]
        served = FORMATS.get(schema_type)
        if served is None:
            raise InvalidSchema(f"Invalid schema type {schema_type}")
        source = Source(*key, new)
        cost = source.characters * served.weight
        if self._allowed < cost:
            return Read(self, source, None)
        self._allowed -= cost
        schema = served.parse(text, dependencies, new=new)
        read = Read(self, source, schema)
        self._keep(key, read, new)
        if schema.canonical != text:
            self._keep((schema_type, schema.canonical, key[2]), read, new)
        return read

    def _keep(self, key: _Key, read: Read, new: bool) -> None:
        self._kept.put(key, (read, new), 1000 + _characters(key) * _BYTES_PER_CHARACTER)

    def read(self, source: Source) -> Schema:
        """The schema of a source, for a parser that is allowed everything. Raises :class:`InvalidSchema`."""
        read = self.parse(source.schema_type, source.text, source.dependencies, new=source.new)
        return read if read.schema is None else read.schema

    def differences(
        self, reader: Schema, writer: Schema, *, budget: Budget, **options: Any
    ) -> Sequence[Difference]:
        """See :class:`.schemas.Format`. Raises :class:`TooMuchText` besides."""
        assert isinstance(reader, Read)
        assert isinstance(writer, Read)
        return cast("Sequence[Difference]", self.answered("differences", reader, writer, options, budget))

    def changes(self, reader: Schema, writer: Schema, *, budget: Budget, **options: Any) -> Sequence[Change]:
        """Likewise."""
        assert isinstance(reader, Read)
        assert isinstance(writer, Read)
        return cast("Sequence[Change]", self.answered("changes", reader, writer, options, budget))

    def told(self, question: SchemaQuery) -> Any:
        """The answer as given or remembered. Raises :class:`TooMuchText`, and :class:`InvalidSchema`."""
        known = self._given.get(question) or self._known.get(question)
        if known is None:
            raise TooMuchText(question)
        return known.told()

    def answered(
        self, what: What, read: Read, other: Read | None, details: Mapping[str, Any], budget: Budget | None
    ) -> Any:
        """The answer to a :class:`SchemaQuery`: as given or remembered, else found here if allowed.

        Raises :class:`TooMuchText`, :class:`InvalidSchema` and :class:`.schemas.Exhausted`.
        """
        named = tuple(sorted(details.items()))
        question = SchemaQuery(what, read.source, None if other is None else other.source, named)
        known = self._given.get(question) or self._known.get(question)
        if known is None:
            known = self._found(question, read, other, budget)
            if self.is_limited:  # else nothing is begun anew
                self.learn({question: known})
        return known.told()

    def fingerprints(self, read: Read) -> Fingerprints:
        """Return those of a schema, as found before for the same text, as given, or found here.

        Raises :class:`TooMuchText` and :class:`InvalidSchema`.
        """
        key = read.source.digest
        known = self._fingerprints.get(key)
        if known is None:
            question = SchemaQuery("fingerprints", read.source)
            known = self._given.get(question) or self._found(question, read, None, None)
            self._fingerprints.put(key, known, _FINGERPRINTS_BYTES)
        return cast("Fingerprints", known.told())

    def fingerprints_known(self, source: Source) -> Fingerprints | None:
        """Return those of a schema if they were found before."""
        known = self._fingerprints.get(source.digest)
        return None if known is None or known.value is None else cast("Fingerprints", known.value)

    def _found(
        self, question: SchemaQuery, read: Read, other: Read | None, budget: Budget | None
    ) -> SchemaAnswer:
        schemas = {}
        for each in (read,) if other is None else (read, other):
            if each.schema is None:
                kept = self.parse(*each.source[:3], new=each.source.new)
                each.schema = kept.schema
            if each.schema is None:
                raise TooMuchText(question)
            schemas[each.source] = each.schema
        try:
            return answer(question, schemas.__getitem__, budget or self.budget())
        except Exhausted:
            if not self.is_limited:
                raise
            raise TooMuchText(question) from None

    def passes(self, question: SchemaQuery) -> bool | None:
        """Return the answer to a question ``passes`` if it was found elsewhere for what is begun now."""
        known = self._given.get(question.key)
        return None if known is None else known.value is True

    def learn(self, found: Facts) -> None:
        """Remember answers that were found elsewhere, for a while."""
        for question, known in found.items():
            if isinstance(question, bytes):
                if known.value is True:
                    self.compatible.put(question, True, VERDICT_BYTES)
                continue
            if question.what == "fingerprints":
                self._fingerprints.put(question.source.digest, known, _FINGERPRINTS_BYTES)
                continue
            self._known.put(question, known, 1000 + question.characters + known.characters)

    def source(self, view: View, registered: Registered) -> Source:
        """Return all that a stored version is read from. Raises as :meth:`stored` does."""
        row = registered.row
        listed = entities.references(row)
        _, dependencies = references.resolve(view, registered.subject, listed, deleted=True)
        source = Source(entities.schema_type(row), entities.text(row), tuple(dependencies))
        if source.schema_type not in FORMATS:
            raise InvalidSchema(f"Invalid schema type {source.schema_type}")
        return source

    def stored(self, view: View, registered: Registered) -> Read:
        """The schema of a stored version, which is read when it is asked something.

        Raises :class:`InvalidSchema` where its references lead nowhere any more or its type is not served, as
        it does itself where it is none.
        """
        source = self.source(view, registered)
        kept = self._kept.get(source[:3])
        return Read(self, source, None) if kept is None else kept[0]

    def formatted(self, view: View, registered: Registered, wanted: str) -> VersionRow:
        """The version's row with its text in a ``format`` of the API. Raises 42201."""
        row = registered.row
        if wanted.lower() in ("", "default") or entities.schema_type(row) not in FORMATS:
            return row
        try:
            return entities.with_text(row, self.stored(view, registered).formatted(wanted))
        except InvalidSchema as error:
            raise errors.INVALID_SCHEMA(str(error)) from None


def _characters(key: _Key) -> int:
    return len(key[1]) + sum(len(each.text) for each in key[2])


_K = TypeVar("_K")
_V = TypeVar("_V")


class _Kept(Generic[_K, _V]):
    """The values used last, as many as ``bytes_max`` allows for."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._values: OrderedDict[_K, tuple[_V, int]] = OrderedDict()

    def __contains__(self, key: _K) -> bool:
        return bool(self._values) and key in self._values

    def get(self, key: _K) -> _V | None:
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: _K, value: _V, weight: int) -> None:
        before = self._values.pop(key, None)
        self._bytes += weight - (before[1] if before is not None else 0)
        self._values[key] = value, weight
        while self._bytes > self._bytes_max:
            _, (_, dropped) = self._values.popitem(last=False)
            self._bytes -= dropped
