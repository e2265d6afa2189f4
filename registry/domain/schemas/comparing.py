"""The parts of comparing two schemas that all formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, Literal, TypeVar

from .contract import (
    STRICT,
    Budget,
    Change,
    Difference,
    Fingerprints,
    InvalidSchema,
    Links,
    Schema,
    SchemaField,
    SearchPart,
)

S = TypeVar("S", bound=Schema)

# Which of the two schemas is being registered.
Side = Literal["new", "old"]


class Comparing(ABC, Generic[S]):
    """The part of a :class:`.contract.Format` that compares its schemas, which are of type ``S``."""

    __slots__ = ()
    weight = 1

    def outline(self, text: str) -> Fingerprints | None:
        """Return no outline; formats that have one override this."""
        return None

    def may_normalize_alike(self, one: bytes, other: bytes) -> bool:
        """Return true; formats with a cheap test override this."""
        return True

    def links(self, text: str) -> Links:
        """Return no names; formats whose schemas refer to each other override this."""
        return Links("", (), ())

    def fields(self, text: str) -> Iterator[SchemaField]:
        """Return no fields; formats whose schemas have fields override this."""
        return iter(())

    def search_parts(self, text: str) -> Iterator[SearchPart]:
        """Yield what a search reads of the fields."""
        return ((each.kind, each.name, each.doc, each.tags) for each in self.fields(text))

    @abstractmethod
    def own(self, schema: Schema) -> S | None:
        """Return the schema if it is one of this format, else None."""

    @abstractmethod
    def compare(self, writer: S, reader: S, reader_is: Side, budget: Budget, policy: str) -> list[Difference]:
        """Return the :meth:`differences` of two schemas of this format."""

    @abstractmethod
    def explain(
        self, writer: S, reader: S, reader_is: Side, budget: Budget, policy: str, *, lines: bool
    ) -> list[Change]:
        """Return the :meth:`changes` between two schemas of this format."""

    def differences(
        self,
        reader: Schema,
        writer: Schema,
        reader_is: Side,
        budget: Budget | None = None,
        *,
        policy: str = STRICT,
    ) -> list[Difference]:
        """Return the reasons why ``reader`` cannot read data of ``writer``; see :class:`.contract.Format`."""
        return self.compare(
            self._one(writer), self._one(reader), reader_is, Budget() if budget is None else budget, policy
        )

    def changes(
        self,
        reader: Schema,
        writer: Schema,
        reader_is: Side,
        budget: Budget | None = None,
        *,
        policy: str = STRICT,
        lines: bool = False,
    ) -> list[Change]:
        """Return all changes with explanations; see :class:`.contract.Format`."""
        budget = Budget() if budget is None else budget
        for each in (writer, reader):
            budget.spend_on_text(len(each.canonical), lines=lines)
        return self.explain(self._one(writer), self._one(reader), reader_is, budget, policy, lines=lines)

    def _one(self, schema: Schema) -> S:
        own = self.own(schema)
        if own is None:
            raise InvalidSchema("Incompatible because of different schema type")
        return own
