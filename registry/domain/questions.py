"""Questions about schemas whose answers follow from texts alone, however long they take.

What would keep a process from answering others is done elsewhere: the question goes there as data, its answer
comes back, and whoever asked begins anew with what is known by then. So it makes no difference to a verdict
where it was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

from .schemas import FORMATS, Budget, Dependency, InvalidSchema, Schema

What = Literal[
    "canonical", "normalized", "check_fields", "field_names", "formatted", "equivalent", "differences"
]


class Source(NamedTuple):
    """All that a schema is read from; see :meth:`.schemas.Format.parse`."""

    schema_type: str
    text: str
    dependencies: tuple[Dependency, ...] = ()
    new: bool = False

    @property
    def characters(self) -> int:
        """How much there is to read."""
        return len(self.text) + sum(len(each.text) for each in self.dependencies)


class Question(NamedTuple):
    """What is wanted of ``source``, by the name that :class:`.schemas.Schema` has for it.

    ``differences`` is asked of the reader, with the writer as ``other`` and what the reader is as ``detail``.
    """

    what: What
    source: Source
    other: Source | None = None
    detail: str = ""

    @property
    def characters(self) -> int:
        """How much there is to read for it."""
        return self.source.characters + (0 if self.other is None else self.other.characters)


class Known(NamedTuple):
    """An answer: a value of the type that the question has, or why a schema is none."""

    value: Any
    invalid: str | None = None

    def told(self) -> Any:
        """The value. Raises :class:`InvalidSchema`."""
        if self.invalid is not None:
            raise InvalidSchema(self.invalid)
        return self.value


def answer(question: Question, read: Callable[[Source], Schema], budget: Budget) -> Known:
    """Answer with what ``read`` makes of the sources. Raises :class:`.schemas.Exhausted`."""
    try:
        return Known(_value(question, read, budget))
    except InvalidSchema as error:
        return Known(None, str(error))


def _value(question: Question, read: Callable[[Source], Schema], budget: Budget) -> Any:
    what, source, other, detail = question
    schema = read(source)
    if what == "formatted":
        return schema.formatted(detail)
    if what == "equivalent":
        assert other is not None
        return schema.equivalent(read(other))
    if what == "differences":
        assert other is not None
        reader_is = cast("Literal['new', 'old']", detail)
        return FORMATS[source.schema_type].differences(
            schema, read(other), reader_is=reader_is, budget=budget
        )
    said = getattr(schema, what)
    return said() if callable(said) else said
