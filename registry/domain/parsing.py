"""Parsed schemas, kept for a while, and the content of a registration as it would be stored."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import entities, errors, references
from .commands import Register
from .errors import RegistryError
from .model import Metadata, Reference, RuleSet, Subject, identity
from .rows import VersionRow, View
from .schemas import FORMATS, STEPS_MAX, Budget, Dependency, InvalidSchema, Schema
from .versions import Registered

_BYTES_PER_CHARACTER = 16
"""What a parsed schema takes in memory for each character of its text, generously."""
_TEXT_SHOWN_MAX = 10_240

_Key = tuple[str, str, tuple[Dependency, ...]]


class TooMuchText(Exception):
    """More would have to be parsed, or compared, than :meth:`Parser.allow` has allowed for."""


class Parser:
    """Parses schemas and remembers the last ones, about ``bytes_max`` bytes of them. For one thread."""

    def __init__(self, bytes_max: int = 32 * 1024 * 1024) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[_Key, tuple[Schema, bool]] = OrderedDict()
        self._allowed = math.inf
        self._steps: float = STEPS_MAX

    def allow(self, characters: float, steps: float = STEPS_MAX) -> None:
        """From now on parse so much at most; what is remembered costs nothing. ``steps``: of comparing."""
        self._allowed = characters
        self._steps = min(steps, STEPS_MAX)

    def budget(self) -> Budget:
        """What one check of compatibility may take."""
        return Budget(self._steps)

    @property
    def is_limited(self) -> bool:
        """Whether another parser may take more steps."""
        return self._steps < STEPS_MAX

    def parse(
        self, schema_type: str, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False
    ) -> Schema:
        """The schema that ``text`` says; ``new`` as in :class:`.schemas.Format`.

        Raises :class:`InvalidSchema`, also for a type that is not served, and :class:`TooMuchText`.
        """
        key = (schema_type, text, tuple(dependencies))
        kept = self._kept.get(key)
        if kept is not None and (kept[1] or not new):
            self._kept.move_to_end(key)
            return kept[0]
        served = FORMATS.get(schema_type)
        if served is None:
            raise InvalidSchema(f"Invalid schema type {schema_type}")
        self._allowed -= _characters(key)
        if self._allowed < 0:
            raise TooMuchText
        schema = served.parse(text, dependencies, new=new)
        self._keep(key, schema, new)
        if schema.canonical != text:
            self._keep((schema_type, schema.canonical, key[2]), schema, new)
        return schema

    def _keep(self, key: _Key, schema: Schema, new: bool) -> None:
        if key not in self._kept:
            self._bytes += _weight(key)
        self._kept[key] = (schema, new)
        while self._bytes > self._bytes_max:
            dropped, _ = self._kept.popitem(last=False)
            self._bytes -= _weight(dropped)

    def stored(self, view: View, registered: Registered) -> Schema:
        """The schema of a stored version. Raises :class:`InvalidSchema` where it is none any more."""
        row = registered.row
        listed = entities.references(row)
        _, dependencies = references.resolve(view, registered.subject, listed, deleted=True)
        return self.parse(entities.schema_type(row), entities.text(row), dependencies)

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


def _weight(key: _Key) -> int:
    return 1000 + _characters(key) * _BYTES_PER_CHARACTER


@dataclass(frozen=True, slots=True)
class Content:
    """What a client wants stored: everything that makes up a schema's identity, and its type."""

    schema_type: str
    text: str
    """Canonical, or normalised where that was wanted."""
    references: list[Reference]
    """As the client wrote them, but with the number in the place of -1."""
    dependencies: list[Dependency]
    metadata: Metadata | None
    rules: RuleSet | None
    md5: bytes = field(init=False)
    """The guid."""

    def __post_init__(self) -> None:
        md5 = identity(self.text, self.references, self.metadata, self.rules)
        object.__setattr__(self, "md5", md5)

    def given(self, metadata: Metadata | None, rules: RuleSet | None) -> Content:
        """The same schema with other metadata and rules."""
        if metadata == self.metadata and rules == self.rules:
            return self
        return Content(self.schema_type, self.text, self.references, self.dependencies, metadata, rules)

    def parsed(self, parser: Parser) -> Schema:
        """The schema itself."""
        return parser.parse(self.schema_type, self.text, self.dependencies)


def read(
    view: View,
    parser: Parser,
    subject: Subject,
    request: Register,
    *,
    new: bool,
    normalize: bool,
    fields: bool = False,
) -> Content:
    """The content of a request whose text is not blank. Raises 42201.

    ``new``: hold names, namespaces and defaults to the rules, and do not see soft-deleted references.
    ``fields``: and field names to what ``validateFields`` demands.
    """
    schema_type = "AVRO" if request.schema_type is None else request.schema_type
    if schema_type not in FORMATS:
        raise errors.INVALID_SCHEMA(f"Invalid schema type {schema_type}")
    if request.canonical and not normalize and not request.references and not fields:
        return Content(schema_type, request.schema, [], [], request.metadata, request.rule_set)
    try:
        listed, dependencies = references.resolve(view, subject, request.references or (), deleted=not new)
        schema = parser.parse(schema_type, request.schema, dependencies, new=new)
        if fields:
            schema.check_fields()
        text = schema.normalized if normalize else schema.canonical
    except InvalidSchema as error:
        raise invalid(request, str(error)) from None
    if normalize:
        listed = sorted(set(listed), key=lambda each: (each.name, each.subject, each.version))
    return Content(schema_type, text, listed, dependencies, request.metadata, request.rule_set)


def invalid(request: Register, details: str) -> RegistryError:
    """The refusal of a schema that cannot be parsed (42201, in Confluent's words)."""
    listed = ", ".join(
        f"{{name='{each.name}', subject='{each.subject}', version={each.version}}}"
        for each in request.references or ()
    )
    text = request.schema
    shown = text if len(text) <= _TEXT_SHOWN_MAX else f"<truncated> {text[:_TEXT_SHOWN_MAX]}..."
    schema_type = "AVRO" if request.schema_type is None else request.schema_type
    return errors.INVALID_SCHEMA(
        f"Invalid schema {{subject={request.subject},version={request.version},id={request.schema_id},"
        f"schemaType={schema_type},references=[{listed}],metadata={entities.shown(request.metadata)},"
        f"ruleSet={entities.shown(request.rule_set)},schema={shown},schemaTags=null}} "
        f"with refs [{listed}] of type {schema_type}, details: {details}"
    )
