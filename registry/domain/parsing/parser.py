"""Parser and cache of schemas, which answers schema queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from registry.domain.errors import RegistryError
from registry.domain.lru import Lru
from registry.domain.schemas import (
    FORMATS,
    STEPS_MAX,
    Budget,
    Dependency,
    Exhausted,
    InvalidSchema,
    Schema,
)

from .memory import FINGERPRINTS_BYTES, SchemaMemory
from .querying import First, Needed, Paused, Querying, Unanswered
from .schema_queries import NOTHING, PAUSE, Facts, SchemaAnswer, SchemaQuery, Source, answer, several

# Estimated upper bound of the memory of a parsed schema per character of its text.
_BYTES_PER_CHARACTER: Final = 16
# For ordered computations, how many have their missing queries collected at once, and how many characters
# these may have in total unless there is only one query.
AHEAD_MAX: Final = 256
AHEAD_CHARACTERS_MAX: Final = 8 * 1024 * 1024

# Queries whose answers are small, and remembered by digests of their sources.
_SMALL: Final = ("fingerprints", "succession")

_Key = tuple[str, str, tuple[Dependency, ...]]
T = TypeVar("T")


class Parser:
    """Parses schemas and caches the last ones, up to about ``bytes_max`` bytes. Not thread-safe."""

    def __init__(self, bytes_max: int = 32 * 1024 * 1024) -> None:
        self.memory: Final = SchemaMemory(bytes_max // 2)
        self._schemas = Lru[_Key, tuple[Schema, bool]](bytes_max)
        self._answers = Lru[SchemaQuery, SchemaAnswer](bytes_max)

    def run(self, steps: Querying[T]) -> T:
        """Return the result of a computation, answering all its queries here."""
        result = _Attempt(self, math.inf, STEPS_MAX, NOTHING).result(steps)
        assert not isinstance(result, Unanswered)  # nothing is too large
        return result

    def attempt(
        self, steps: Querying[T], characters: float, compared: float, known: Facts = NOTHING
    ) -> T | Unanswered:
        """Return the result of a computation, or the query it lacks; the computation is dropped then.

        Parses at most ``characters`` of Avro here (other formats count in proportion to their parsing cost),
        and takes at most ``compared`` steps of comparing. Remembered answers, and those ``known`` from
        earlier attempts, cost nothing.
        """
        try:
            return _Attempt(self, characters, compared, known).result(steps)
        except Paused:
            return Unanswered(PAUSE)

    def read(self, source: Source) -> Schema:
        """Return the schema of a source. Raises :class:`InvalidSchema`, also if its type is not served."""
        schema = self.cached_schema(source)
        return self.parse(source) if schema is None else schema

    def parse(self, source: Source) -> Schema:
        """Return the schema of a source that is not :meth:`kept`. Raises as :meth:`read`."""
        served = FORMATS.get(source.schema_type)
        if served is None:
            raise InvalidSchema(f"Invalid schema type {source.schema_type}")
        schema = served.parse(source.text, source.dependencies, new=source.new)
        self.put(source, schema)
        return schema

    def put(self, source: Source, schema: Schema) -> None:
        """Cache the schema of a source, also for its canonical text."""
        schema_type, text, dependencies, new = source
        self._keep((schema_type, text, dependencies), schema, new)
        if (canonical := schema.canonical) != text:
            self._keep((schema_type, canonical, dependencies), schema, new)

    def cached_schema(self, source: Source) -> Schema | None:
        """Return a cached schema; for a new source only one that was validated as new."""
        found = self._schemas.get(source[:3])
        return found[0] if found is not None and (found[1] or not source.new) else None

    def _keep(self, key: _Key, schema: Schema, new: bool) -> None:
        characters = len(key[1])
        if key[2]:
            characters += sum(len(each.text) for each in key[2])
        self._schemas.put(key, (schema, new), 1000 + characters * _BYTES_PER_CHARACTER)

    def cached_answer(self, query: SchemaQuery) -> SchemaAnswer | None:
        """Return a remembered answer."""
        if query.what == "fingerprints":
            return self.memory.fingerprints.get(query.source.digest)
        if query.what == "succession":
            return self.memory.successions.get(query.digest)
        if isinstance(key := query.key, bytes):
            return SchemaAnswer(True) if self.memory.compatible.get(key) else None
        return self._answers.get(query)

    def learn(self, found: Facts) -> None:
        """Remember answers for a while."""
        for key, known in found.items():
            if isinstance(key, bytes):
                if known.value is True:
                    self.memory.put_compatible(key)
            elif key.what == "fingerprints":
                self.memory.fingerprints.put(key.source.digest, known, FINGERPRINTS_BYTES)
            elif key.what == "succession":
                self.memory.put_succession(key.digest, known)
            else:
                self._answers.put(key, known, 1000 + key.characters + known.characters)


class _Attempt:
    """One attempt at a computation, within limits on parsing and comparing."""

    def __init__(self, parser: Parser, characters: float, steps: float, known: Facts) -> None:
        self._parser = parser
        self._characters = characters
        self._known = known
        self._bounded = characters < math.inf or steps < STEPS_MAX
        self._budget = Budget(min(steps, STEPS_MAX))

    def result(self, steps: Querying[T]) -> T | Unanswered:
        """Drive a computation until it returns, raises, or lacks an answer."""
        value: Any = None
        error: Exception | None = None
        while True:
            try:
                needed = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                error = None  # its traceback refers to this frame: a reference cycle
            try:
                value = self._answer(needed)
            except (InvalidSchema, Exhausted, RegistryError, Paused) as raised:
                error = raised
                continue
            if isinstance(value, Unanswered):
                steps.close()
                return value

    def _answer(self, needed: Needed) -> Any:
        if isinstance(needed, SchemaQuery):
            return self._answer_query(needed)
        if isinstance(needed, First):
            return self._first(iter(needed.steps))
        return self._all(iter(needed.steps), needed.refusal)

    def _answer_query(self, query: SchemaQuery) -> Any:
        if query is PAUSE:
            if self._bounded:
                raise Paused
            return None
        known = self._known.get(query.key) if self._known else None
        if known is None and self._may_be_remembered(query):
            known = self._parser.cached_answer(query)
        if known is None:
            known = self._compute(query)
            if known is None:
                return Unanswered(query)
            if query.what in _SMALL or (self._bounded and query.other is not None):
                self._parser.learn({query.key: known})
        return known.result()

    def _may_be_remembered(self, query: SchemaQuery) -> bool:
        # With a cached schema, computing most answers is faster than finding remembered ones by their texts.
        return query.other is not None or query.what in _SMALL or not self._parser.cached_schema(query.source)

    def _compute(self, query: SchemaQuery) -> SchemaAnswer | None:
        """Compute the answer; ``None`` if that exceeds the limits. Raises :class:`InvalidSchema`."""
        if query.what == "passes" and self._known:
            return None  # if some comparisons exceeded the limits, do not start the others here
        found: Sequence[Schema] = ()
        if query.reads_texts and not self._affords_texts(query):
            return None
        if query.needs_schemas:
            schema = self._read(query.source)
            other = schema if query.other is None else self._read(query.other)
            if schema is None or other is None:
                return None
            found = schema, other
        try:
            return answer(query, lambda source: found[source is not query.source], self._budget)
        except Exhausted:
            if not self._bounded:
                raise
            return None

    def _affords_texts(self, query: SchemaQuery) -> bool:
        return self._affords(query.source) and (query.other is None or self._affords(query.other))

    def _read(self, source: Source) -> Schema | None:
        schema = self._parser.cached_schema(source)
        if schema is None:
            if not self._affords(source):
                return None
            schema = self._parser.parse(source)
        return schema

    def _affords(self, source: Source) -> bool:
        """Return true if the source may be parsed here; it counts then."""
        served = FORMATS.get(source.schema_type)
        cost = source.characters * (1 if served is None else served.weight)
        if self._characters < cost:
            return False
        self._characters -= cost
        return True

    def _first(self, row: Iterator[Querying[T | None]]) -> T | Unanswered | None:
        for steps in row:
            found = self.result(steps)
            if isinstance(found, Unanswered):
                return self._with_next(found, row)
            if found is not None:
                return found
        return None

    def _with_next(self, lacking: Unanswered, row: Iterator[Querying[Any]]) -> Unanswered:
        """Return the missing query and those of the next computations, as many as were answered before."""
        left = self._characters, self._budget
        self._characters, self._budget = 0, Budget(0)  # no work for them in this attempt
        queries, characters = [lacking.query], lacking.query.characters
        for steps in islice(row, min(len(self._known), AHEAD_MAX)):
            try:
                found = self.result(steps)
            except (InvalidSchema, RegistryError, Paused):
                break
            if isinstance(found, Unanswered):
                characters += found.query.characters
                if characters > AHEAD_CHARACTERS_MAX:
                    break
                queries.append(found.query)
            elif found is not None:
                break
        self._characters, self._budget = left
        return Unanswered(several(queries), lacking.refusal)

    def _all(self, row: Iterator[Querying[T]], refusal: str) -> list[T] | Unanswered:
        results: list[T] = []
        lacking: list[Unanswered] = []
        for steps in row:
            try:
                result = self.result(steps)
            except (InvalidSchema, Exhausted, RegistryError, Paused):
                if not lacking:
                    raise
                break  # its error may depend on missing answers
            if isinstance(result, Unanswered):
                lacking.append(result)
            else:
                results.append(result)
        return _unite(lacking, refusal) if lacking else results


def _unite(lacking: Sequence[Unanswered], refusal: str) -> Unanswered:
    compared = (each for each in lacking if any(part.other is not None for part in each.query.parts))
    query = several(each.query for each in lacking)
    return Unanswered(query, refusal or next(compared, lacking[0]).refusal)
