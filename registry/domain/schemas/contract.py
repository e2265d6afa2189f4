"""What the registry needs of a schema format. AVRO implements it; others join through the same types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, Protocol

# Steps of comparing for one request: a few seconds.
STEPS_MAX: Final = 500_000


STRICT: Final = "STRICT"
# Policies of compatibility (Confluent 8.x, ``compatibilityPolicy``): ``LENIENT`` lets JSON schemas change
# what their open content models let through, such as an optional property that is added.
LENIENT: Final = "LENIENT"


class InvalidSchema(ValueError):
    """A text that is no schema of its format. ``str(error)`` is the parser's sentence, fit for a client."""


class Unreadable(InvalidSchema):
    """A text that is not written in its format's language at all, or whose references do not exist.

    Confluent words its refusal otherwise than that of a schema that can be read and makes no sense.
    """


class Exhausted(Exception):
    """A comparison would take more steps than its :class:`Budget` holds."""


class Budget:
    """The steps that comparisons may take together, because the domain has no clock.

    A step is a small piece of work, a microsecond or a few: a pair of types, a property, a branch tried.
    """

    __slots__ = ("left",)

    def __init__(self, steps: float = STEPS_MAX) -> None:
        self.left = steps

    def spend_on_text(self, characters: int, *, lines: bool) -> None:
        """Take out what it costs to tell at length of a schema so long; ``lines``: and to print it."""
        self.spend(characters // (20 if lines else 100))

    def spend(self, steps: int = 1) -> None:
        """Take steps out. Raises :class:`Exhausted` where too few are left."""
        self.left -= steps
        if self.left < 0:
            raise Exhausted


@dataclass(frozen=True, slots=True)
class Dependency:
    """A referenced schema: the name it is referred to by, and its canonical text."""

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

    # How it is written, cut where it is long.
    text: str
    # Where it stands in the schema's text printed in lines, from 1; 0 where that is not known.
    line: int = 0
    # That line.
    shown: str = ""


class Change(NamedTuple):
    """One change between two schemas, told so that whoever made it knows what to do."""

    type: str
    path: str
    # Whether data stays readable all the same.
    compatible: bool
    # The text of the :class:`Difference`; empty where it is compatible.
    message: str
    # In the schema that is registered; ``None``: it is not there.
    old: Part | None
    # In the schema that is to be.
    new: Part | None
    # One sentence that says what would pass; empty where nothing need be done.
    fix: str


class Entity(NamedTuple):
    """A part of a schema that can carry tags."""

    # As the format spells it (Confluent 8.x, ``entityPath``).
    path: str
    # ``sr_record`` or ``sr_field``.
    kind: str


# An entity and tags of it.
Tagged = tuple[Entity, tuple[str, ...]]


class Fingerprints(NamedTuple):
    """Digests of what :meth:`Schema.equivalent` compares, so that schemas need not be compared one by one."""

    # Equal for schemas that are equivalent and use the same dependencies.
    own: bytes
    # Equal also for one that defines itself what the other one finds in its dependencies.
    outer: bytes


# Characters of a text at which a glance is taken: a few milliseconds.
GLANCE_MAX: Final = 64 * 1024


def digest(texts: Iterable[str]) -> bytes:
    """Return 16 bytes that stand for a list of texts."""
    found = blake2b(digest_size=16)
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        found.update(len(raw).to_bytes(4, "big"))
        found.update(raw)
    return found.digest()


class Schema(Protocol):
    """A parsed schema. Immutable; safe to keep and to share."""

    @property
    def canonical(self) -> str:
        """The text that is stored."""

    @property
    def normalized(self) -> str:
        """The text that is stored when normalisation is asked for. Raises :class:`InvalidSchema`."""

    def equivalent(self, other: Schema) -> bool:
        """Whether both say the same, attributes in any order (Confluent 8.x: lookup's tolerant match)."""

    def fingerprints(self) -> Fingerprints:
        """Digests that are equal for schemas that are equivalent."""

    def formatted(self, format: str) -> str:
        """Return the text in a ``format`` of the API, in any letter case; an unknown one gives the canonical.

        Raises :class:`InvalidSchema`.
        """

    def field_names(self) -> frozenset[str]:
        """Names of the top-level fields; empty where the schema has no fields."""

    def check(self) -> None:
        """Raise :class:`InvalidSchema` where the text can be read and makes no sense as a schema."""

    def check_fields(self) -> None:
        """What ``validateFields`` demands besides. Raises :class:`InvalidSchema`."""

    def tags(self) -> Sequence[Tagged]:
        """What carries tags in the text, in its order."""

    def retagged(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        """Return the text with other tags. Raises :class:`InvalidSchema` for what is not there.

        ``also``: to add where it is there.
        """


class Format(Protocol):
    """A schema type of the registry."""

    @property
    def name(self) -> str:
        """The ``schemaType`` of the API, for example ``AVRO``."""

    @property
    def weight(self) -> int:
        """How much reading a character costs at the worst, in what it costs for Avro."""

    def parse(self, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False) -> Schema:
        """Parse ``text``, which may name types of ``dependencies`` (transitive closure, dependencies first).

        ``new``: the schema is about to be registered, so names, namespaces and defaults are held to the
        rules. What is stored, imported or looked up is read more leniently. Raises :class:`InvalidSchema`.
        """

    def outline(self, text: str) -> Fingerprints | None:
        """Return digests of part of what ``text`` says, found without parsing it.

        They are equal wherever fingerprints are: ``own`` for schemas that have no dependencies, ``outer`` for
        all. None: only the parser can tell.
        """

    def differences(
        self,
        reader: Schema,
        writer: Schema,
        reader_is: Literal["new", "old"],
        budget: Budget | None = None,
        *,
        policy: str = STRICT,
    ) -> list[Difference]:
        """Why ``reader`` cannot read data of ``writer``; empty when it can.

        ``reader_is`` says which of the two is being registered; the messages call them new and old.
        ``policy``: the ``compatibilityPolicy`` in force; a format that knows no other takes it as ``STRICT``.
        Raises :class:`InvalidSchema` for a schema that was read leniently and makes no sense, and
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
        """All changes, told at length; those that are not compatible are :meth:`differences`, in its order.

        ``lines``: with the lines in which the parts stand. Raises what :meth:`differences` raises.
        """
