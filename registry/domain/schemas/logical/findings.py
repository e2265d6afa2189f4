"""Objections to a logical type or its change, and their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from registry.domain.schemas.contract import Change

Direction = Literal["backward", "forward", ""]

# The advice on each rule.
_FIXES: Final[Mapping[str, str]] = {
    "EMPTY_STRUCT": "give the type a field",
    "FIELD_NAME_CASE_COLLISION": "rename one of the fields",
    "CYCLIC_TYPE": "replace the recursion by a fixed number of levels, or by the id of the other object",
    "PRECISION_OUT_OF_RANGE": "declare a precision in the range",
    "SCALE_OUT_OF_RANGE": "declare a scale in the range",
    "LENGTH_OUT_OF_RANGE": "declare a length in the range",
    "UNREPRESENTABLE_TYPE": "use a type with at most microseconds, or a type that says what the value holds",
    "REQUIRED_FIELD_ADDED": "make the field nullable",
    "FIELD_DELETED": "keep the field; it may become nullable",
    "FIELD_REORDERED": "keep the order of the earlier fields; new ones may stand anywhere",
    "NULLABLE_TO_NON_NULLABLE": "keep it nullable",
    "NON_NULLABLE_DEFAULT_REMOVED": "keep a default, or make the field nullable",
    "MAP_KEY_TYPE_MISMATCH": "keep the type of the keys, or add a map under another name",
    "UNSUPPORTED_TYPE_CHANGE": "keep the type, or add a field of the new type under another name",
    "TYPE_MISMATCH": "keep the type, or add a field of the new type under another name",
    "FIELD_RENAMED": "keep the former name; or add a field, and fill both for a while",
    "REQUIRED_FIELD_DELETED": "make the field nullable first, or drop the column from the table",
    "ALL_FIELDS_REPLACED": "keep one of the earlier fields, or add a field under another name",
    "FIELD_NAME_NOT_ALLOWED": "rename the field",
    "NULLABLE_COLLECTION": "let an empty collection stand for null",
    "NULLABLE_ELEMENT": "declare elements that are never null",
    "ARRAY_OF_ARRAYS": "put a record with one field between the arrays",
    "NESTED_TOO_DEEPLY": "move the inner levels into fields of an outer one",
}


class Finding(NamedTuple):
    """One rule that a type or a change breaks."""

    rule: str
    # Names joined by dots; elements are ``[]``, keys and values of maps ``{key}`` and ``{}``. Root: empty.
    path: str
    text: str

    def __str__(self) -> str:
        """Return the finding as Confluent prints it."""
        return f"{self.rule} at '{self.path}': {self.text}" if self.path else f"{self.rule}: {self.text}"


class Report(NamedTuple):
    """The objections of one engine to a schema, or to its change in one direction."""

    engine: str
    # Empty for the schema itself.
    direction: Direction
    findings: Sequence[Finding]
    # True if the engine is a target that somebody named, false if the policy ``LOGICAL`` asks it.
    is_target: bool = False

    @property
    def message(self) -> str:
        """The message as Confluent prints it."""
        about = f"Logical compatibility ({self.engine}, {self.direction})"
        if self.is_target:
            about = f"Target {self.engine}"
        elif not self.direction:
            about = f"Logical validity ({self.engine})"
        return f"{about}: " + "\n".join(map(str, self.findings))

    def changes(self) -> list[Change]:
        """Return the findings as changes with advice."""
        return [
            Change(
                each.rule, each.path, False, each.text, None, None,
                f"{_FIXES[each.rule]} ({self.engine})", self.engine, each.text,
            )
            for each in self.findings
        ]  # fmt: skip


def inside(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name
