"""The contract between the registry and its schema formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from .lint import Element

if TYPE_CHECKING:
    from .logical.types import Script, Type

# Comparison steps for one request: a few seconds.
STEPS_MAX: Final = 500_000


STRICT: Final = "STRICT"
# Compatibility policies (Confluent 8.x, ``compatibilityPolicy``). ``LENIENT`` permits changes to JSON schemas
# that their open content models let through, such as adding an optional property.
LENIENT: Final = "LENIENT"
# Also asks what Flink and Iceberg allow (Confluent 8.4).
LOGICAL: Final = "LOGICAL"


class InvalidSchema(ValueError):
    """Raised for a text that is not a schema of its format; ``str(error)`` can be shown to clients."""


class Unreadable(InvalidSchema):
    """Raised for a text that is not in its format's language at all, or with unknown references.

    Confluent words this refusal differently from that of a readable but invalid schema.
    """


class Exhausted(Exception):
    """Raised if a comparison would take more steps than its :class:`Budget` has."""


class Budget:
    """The number of steps that comparisons may take together; the domain has no clock.

    A step is a small piece of work, a microsecond or a few: a pair of types, a property, a branch tried.
    """

    __slots__ = ("left",)

    def __init__(self, steps: float = STEPS_MAX) -> None:
        self.left = steps

    def spend_on_text(self, characters: int, *, lines: bool) -> None:
        """Spend the cost of explaining changes to a text this long, and of printing it if ``lines``."""
        self.spend(characters // (20 if lines else 100))

    def spend(self, steps: int = 1) -> None:
        """Spend steps. Raises :class:`Exhausted` if too few are left."""
        self.left -= steps
        if self.left < 0:
            raise Exhausted


@dataclass(frozen=True, slots=True)
class Dependency:
    """A referenced schema: the name by which it is referred to, and its canonical text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One reason why a reader cannot read what a writer wrote.

    ``text`` is the whole message as Confluent prints it:
    ``{errorType:'…', description:'…', additionalInfo:'…'}``.
    """

    type: str
    path: str
    text: str


class Part(NamedTuple):
    """The part of a schema that a change is about."""

    # The text of the part, cut if it is long.
    text: str
    # Its line in the pretty-printed schema, from 1; 0 if unknown.
    line: int = 0
    # The text of that line.
    shown: str = ""


class Change(NamedTuple):
    """One change between two schemas, with advice for the author of the change."""

    type: str
    path: str
    # True if data stays readable.
    compatible: bool
    # The text of the :class:`Difference`; empty if the change is compatible.
    message: str
    # In the registered schema; ``None`` if it is absent there.
    old: Part | None
    # In the new schema.
    new: Part | None
    # One sentence that suggests a compatible change; empty if none is needed.
    fix: str
    # The engine or table format that cannot follow the change, and why; empty for those of the format.
    engine: str = ""
    reason: str = ""


# What a search reads of a type or field: ``type`` or ``field``, its name, doc and tags.
SearchPart = tuple[str, str, str, Sequence[str]]


class SchemaField(NamedTuple):
    """A field, or a type that the schema defines."""

    kind: Literal["field", "type"]
    # Names joined by dots; elements are ``[]`` and values of maps ``{}``.
    path: str
    name: str
    type: str
    # The default as JSON, or as the format spells it; ``None``: there is none.
    default: str | None = None
    doc: str = ""
    tags: tuple[str, ...] = ()
    # True if the schema says that data must have it.
    required: bool = False


class Entity(NamedTuple):
    """A part of a schema that can have tags."""

    # The path as the format spells it (Confluent 8.x, ``entityPath``).
    path: str
    # ``sr_record`` or ``sr_field``.
    kind: str


# An entity and its tags.
Tagged = tuple[Entity, tuple[str, ...]]


class Fingerprints(NamedTuple):
    """Digests of what :meth:`Schema.equivalent` compares, so that schemas are not compared one by one."""

    # Equal for equivalent schemas that use the same dependencies.
    own: bytes
    # Equal also for a schema that defines itself what the other one finds in its dependencies.
    outer: bytes


class Use(NamedTuple):
    """A name that a text takes from another schema."""

    # As a reference in the registry is named.
    name: str
    # As the other schema may define it, the likeliest first.
    targets: tuple[str, ...]


class Links(NamedTuple):
    """The names by which schemas refer to each other, as a text has them."""

    # Of the whole schema; empty if it has none.
    own: str
    # Of the parts that it defines.
    inner: tuple[str, ...]
    uses: tuple[Use, ...]
    # A reference by name brings every name of the other schema; the names of others are its URI or its path.
    by: Literal["name", "uri", "path"] = "name"


# Longest text for which an outline is made: a few milliseconds.
GLANCE_MAX: Final = 64 * 1024


def digest(texts: Iterable[str]) -> bytes:
    """Return 16 bytes that identify a list of texts."""
    found = blake2b(digest_size=16)
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        found.update(len(raw).to_bytes(4, "big"))
        found.update(raw)
    return found.digest()


class Schema(Protocol):
    """A parsed schema. Immutable, safe to keep and to share."""

    @property
    def canonical(self) -> str:
        """The text that is stored."""

    @property
    def normalized(self) -> str:
        """The text that is stored if normalization is requested. Raises :class:`InvalidSchema`."""

    def equivalent(self, other: Schema) -> bool:
        """Return true if both are the same apart from attribute order (Confluent 8.x: tolerant lookup)."""

    def fingerprints(self) -> Fingerprints:
        """Return digests that are equal for equivalent schemas."""

    def text_in(self, format: str) -> str:
        """Return the text in a ``format`` of the API; an unknown format returns the canonical text.

        Raises :class:`InvalidSchema`.
        """

    def field_names(self) -> frozenset[str]:
        """Return the names of the top-level fields; empty if the schema has no fields."""

    def check(self) -> None:
        """Raise :class:`InvalidSchema` if the text can be read but is not a valid schema."""

    def check_fields(self) -> None:
        """Check the additional rules of ``validateFields``. Raises :class:`InvalidSchema`."""

    def elements(self) -> Iterator[Element]:
        """Yield the named parts that the schema defines itself, for lint rules."""

    def tags(self) -> Sequence[Tagged]:
        """Return the tagged entities in the order of the text."""

    def retag(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        """Return the text with other tags. Raises :class:`InvalidSchema` for entities that do not exist.

        ``also``: added to those entities that exist.
        """

    def logical(self, budget: Budget) -> Type:
        """Return the logical type: what a table of a lake or an engine would hold.

        Raises :class:`.logical.reading.NotLogical`, and :class:`Exhausted`.
        """


class About(NamedTuple):
    """Facts about a format that the rest of the product has to know."""

    # The name for people.
    title: str
    # The end of its files' names.
    extension: str
    # The language of its texts. The console highlights those that it knows (``components/code.js``), lays
    # ``json`` out in lines, and follows the paths of changes into it.
    language: str = ""
    # A text that authors may begin with.
    sample: str = ""
    # The module of ``registry.cli.decoding`` that decodes messages; empty: they cannot be decoded.
    decoder: str = ""
    # True if the ``resolved`` text contains the schemas that it refers to.
    resolves: bool = False
    # True if the refusal of an unreadable text shows the whole request (Confluent 8.3.1, for Avro).
    shows_unreadable: bool = False


class Format(Protocol):
    """A schema type of the registry."""

    @property
    def name(self) -> str:
        """The ``schemaType`` of the API, for example ``AVRO``."""

    @property
    def about(self) -> About:
        """Facts that the rest of the product has to know."""

    @property
    def weight(self) -> int:
        """Cost of reading a character in the worst case, relative to Avro."""

    def parse(self, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False) -> Schema:
        """Parse ``text``, which may name types of ``dependencies`` (transitive closure, dependencies first).

        ``new``: the schema is about to be registered, so names, namespaces and defaults must follow the
        rules. Stored, imported and looked-up schemas are read more leniently. Raises :class:`InvalidSchema`.
        """

    def from_logical(
        self, script: Script, root: str, dependencies: Sequence[Dependency], budget: Budget
    ) -> str:
        """Return the normalized text of a new schema for what DDL declares.

        ``root`` names a root that has no name. Raises :class:`InvalidSchema` for what the format cannot
        express, and :class:`Exhausted`.
        """

    def outline(self, text: str) -> Fingerprints | None:
        """Return digests of a part of the schema that can be found without parsing its text.

        They are equal if fingerprints are equal: ``own`` for schemas without dependencies, ``outer`` for all.
        None: that takes the parser.
        """

    def may_normalize_alike(self, one: bytes, other: bytes) -> bool:
        """Return false if a cheap test shows that two texts, as JSON strings, differ once normalized."""

    def links(self, text: str) -> Links:
        """Return the names that the text defines and uses, found without its dependencies.

        Raises :class:`InvalidSchema` for a text that cannot be read.
        """

    def fields(self, text: str) -> Iterator[SchemaField]:
        """Yield the types that the text defines and their fields, found without its dependencies.

        Raises :class:`InvalidSchema` for a text that cannot be read.
        """

    def search_parts(self, text: str) -> Iterator[SearchPart]:
        """Yield what a search reads of the same types and fields. Raises the same."""

    def differences(
        self,
        reader: Schema,
        writer: Schema,
        reader_is: Literal["new", "old"],
        budget: Budget | None = None,
        *,
        policy: str = STRICT,
    ) -> list[Difference]:
        """Return the reasons why ``reader`` cannot read data of ``writer``; empty if it can.

        ``reader_is``: which of the two is being registered; the messages call them new and old.
        ``policy``: the ``compatibilityPolicy`` in force; a format that has only one treats it as ``STRICT``.
        Raises :class:`InvalidSchema` for a leniently read schema that turns out invalid, and
        :class:`Exhausted`.
        """

    def changes(
        self,
        reader: Schema,
        writer: Schema,
        reader_is: Literal["new", "old"],
        budget: Budget | None = None,
        *,
        policy: str = STRICT,
        lines: bool = False,
    ) -> list[Change]:
        """Return all changes with explanations; the incompatible ones are :meth:`differences` in their order.

        ``lines``: include the lines of the parts. Raises the errors of :meth:`differences`.
        """
