"""Explanations of changes to JSON schemas: their positions in both texts, and compatible alternatives."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from registry.domain.schemas.contract import Budget, Change, Part
from registry.domain.schemas.explaining import Fix, Lines, Spot, excerpt, fix_text
from registry.domain.schemas.json_scanner import Json

from .changes import difference
from .compatibility import compare
from .found import LocatedChange
from .model import MISSING, Node

_CRITERIA: Final = ("allOf", "anyOf", "oneOf", "type", "$ref")
# The keywords behind changes to a schema as a whole.
_KEYWORDS: Final[dict[str, tuple[str, ...]]] = {
    "ID_CHANGED": ("$id", "id"),
    "TITLE_CHANGED": ("title",),
    "DESCRIPTION_CHANGED": ("description",),
    "DEFAULT_CHANGED": ("default",),
    "TYPE_NARROWED": ("type",),
    "TYPE_EXTENDED": ("type",),
    "COMBINED_TYPE_CHANGED": _CRITERIA,
    "COMBINED_TYPE_EXTENDED": _CRITERIA,
}
_HOLDERS: Final = {
    "properties": ("properties",),
    "dependencies": ("dependencies", "dependentRequired", "dependentSchemas"),
    "items": ("prefixItems", "items"),
}
# The keywords that replace these in later drafts.
_INSTEAD: Final = {"additionalItems": ("items",), "minContains": ("contains",)}
_BOTH_SCHEMAS: Final = LocatedChange("TYPE_CHANGED", "#/", False, ())
_ADDED: Final = Fix(
    "leave `{name}` out, as the old schema does", "keep `{name}` as the old schema has it: {old}"
)
_MINIMUM: Final = Fix("keep `{name}` at {old} or less", "keep `{name}` at {old} or more")
_MAXIMUM: Final = Fix("keep `{name}` at {old} or more", "keep `{name}` at {old} or less")
_MULTIPLE: Final = Fix(
    "keep `{name}` at {old}, or at a number that divides it",
    "keep `{name}` at {old}, or at a multiple of it",
)
_FORBIDDEN: Final = Fix(
    "go on permitting what `{name}` permitted", "go on forbidding what `{name}` forbids: {old}"
)
_NARROWED: Final = Fix("put no schema at `{name}`", "keep `{name}` as the old schema has it: {old}")
_REQUIRED: Final = Fix("do not require `{name}`, or give it a default", "go on requiring `{name}`")
_VALUES: Final = Fix(
    "keep all the values that the old schema lists: {old}",
    "list no other values than the old schema does: {old}",
)
_LENIENT: Final = ", or set compatibilityPolicy to LENIENT"
_OPEN_KEEP: Final = (
    "keep `{name}`: without it, data of the new schema may hold anything in its place" + _LENIENT
)
_OPEN_ITEM: Final = "keep item {name}: without it, data of the new schema may hold anything in its place"
_BRANCHES: Final = Fix(
    "keep for each branch of the old schema one that takes all its data",
    "let each branch of the new schema be one whose data a branch of the old schema takes",
)


class Side(NamedTuple):
    """One of the two schemas: its model, and the JSON that it was read from."""

    node: Node
    value: Json


def changes(
    writer: Side,
    reader: Side,
    reader_is: Literal["new", "old"],
    budget: Budget,
    policy: str,
    *,
    lines: bool,
) -> list[Change]:
    """Return all changes. Raises :class:`~.contract.Exhausted`."""
    found = compare(writer.node, reader.node, budget, policy)
    everything = found.located(budget)
    if not found.compatible and all(each.harmless for each in everything):
        everything.append(_BOTH_SCHEMAS)
    show = _Shown(writer, reader, lines=lines)
    return [_change(each, reader_is, show) for each in everything]


def _change(change: LocatedChange, reader_is: Literal["new", "old"], show: _Shown) -> Change:
    written, read = show.part(change, 0), show.part(change, 1)
    old, new = (written, read) if reader_is == "new" else (read, written)
    if change.harmless:
        return Change(change.change, change.path, True, "", old, new, "")
    message = difference(change.change, change.path, reader_is).text
    fix = fix_text(FIXES, change.change, reader_is, _name(change), old, new)
    return Change(change.change, change.path, False, message, old, new, fix)


def _name(change: LocatedChange) -> str:
    for _, path in change.pairs:
        head, _, rest = path.partition("/")
        if head:
            return rest or head
    return "the schema"


class _Shown:
    def __init__(self, writer: Side, reader: Side, *, lines: bool) -> None:
        self._sides = writer, reader
        self._lines = [Lines(each.value) if lines else None for each in self._sides]

    def part(self, change: LocatedChange, side: Literal[0, 1]) -> Part | None:
        """Return the changed part of the writer's (0) or the reader's (1) schema."""
        spot = _spot(change, side) if change.pairs else Spot(self._sides[side].value)
        if spot is None:
            return None
        lines = self._lines[side]
        return Part(excerpt(spot.value)) if lines is None else lines.part(spot)


def _spot(change: LocatedChange, side: Literal[0, 1]) -> Spot | None:
    """Return the position of a change; booleans are found through the schema that contains them."""
    alone: Spot | None = None
    for pair, path in change.pairs:
        node = pair[side]
        raw = MISSING if node is None else node.raw
        if type(raw) is dict:
            return _within(raw, path, change.change) or alone
        if raw is not MISSING and not path:
            alone = Spot(raw)
    return alone


def _within(raw: dict[str, Json], path: str, change: str) -> Spot | None:
    head, _, rest = path.partition("/")
    if not head:
        keywords = _KEYWORDS.get(change)
        if keywords is None:
            return Spot(raw)
        return next((Spot(raw, each) for each in keywords if each in raw), None)
    if not rest:
        names = (head, *_INSTEAD.get(head, ()))
        return next((Spot(raw, each) for each in names if each in raw), None)
    if head == "required":
        listed = raw.get(head, [])
        return Spot(listed, listed.index(rest)) if rest in listed else None
    for name in _HOLDERS.get(head, (head,)):
        holder = raw.get(name)
        if type(holder) is dict and rest in holder:
            return Spot(holder, rest)
        if type(holder) is list and rest.isdigit() and int(rest) < len(holder):
            return Spot(holder, int(rest))
    return None


def _or_lenient(fix: Fix) -> Fix:
    return Fix(fix.backward + _LENIENT, fix.forward + _LENIENT)


# By kind of harmful change.
FIXES: Final[dict[str, Fix]] = {
    **dict.fromkeys(
        (
            "MAXIMUM_ADDED", "MINIMUM_ADDED", "EXCLUSIVE_MAXIMUM_ADDED", "EXCLUSIVE_MINIMUM_ADDED",
            "MULTIPLE_OF_ADDED", "MAX_LENGTH_ADDED", "MIN_LENGTH_ADDED", "PATTERN_ADDED",
            "MAX_PROPERTIES_ADDED", "MIN_PROPERTIES_ADDED", "MAX_ITEMS_ADDED", "MIN_ITEMS_ADDED",
            "MAX_CONTAINS_ADDED", "MIN_CONTAINS_ADDED", "UNIQUE_ITEMS_ADDED", "SCHEMA_ADDED",
        ),
        _ADDED,
    ),
    **dict.fromkeys(("DEPENDENCY_ARRAY_ADDED", "DEPENDENCY_SCHEMA_ADDED"), Fix(
        "let nothing depend on `{name}`, as in the old schema",
        "keep what depends on `{name}`: {old}",
    )),
    **dict.fromkeys(("DEPENDENCY_ARRAY_EXTENDED", "DEPENDENCY_ARRAY_CHANGED"), Fix(
        "let `{name}` demand no other properties than {old}",
        "let `{name}` go on demanding the properties {old}",
    )),
    **dict.fromkeys(
        (
            "MIN_LENGTH_INCREASED", "MINIMUM_INCREASED", "EXCLUSIVE_MINIMUM_INCREASED",
            "MIN_PROPERTIES_INCREASED", "MIN_ITEMS_INCREASED", "MIN_CONTAINS_INCREASED",
        ),
        _MINIMUM,
    ),
    **dict.fromkeys(
        (
            "MAX_LENGTH_DECREASED", "MAXIMUM_DECREASED", "MAX_ITEMS_DECREASED", "MAX_CONTAINS_DECREASED",
            "EXCLUSIVE_MAXIMUM_DECREASED", "MAX_PROPERTIES_DECREASED",
        ),
        _MAXIMUM,
    ),
    **dict.fromkeys(("MULTIPLE_OF_EXPANDED", "MULTIPLE_OF_CHANGED"), _MULTIPLE),
    "PATTERN_CHANGED": Fix("keep the pattern {old}, or leave it out", "keep the pattern {old}"),
    **dict.fromkeys(("ADDITIONAL_ITEMS_REMOVED", "UNEVALUATED_ITEMS_REMOVED"), _FORBIDDEN),
    **dict.fromkeys(("ADDITIONAL_ITEMS_NARROWED", "UNEVALUATED_ITEMS_NARROWED"), _NARROWED),
    **dict.fromkeys(
        ("ADDITIONAL_PROPERTIES_REMOVED", "UNEVALUATED_PROPERTIES_REMOVED"), _or_lenient(_FORBIDDEN)
    ),
    **dict.fromkeys(
        ("ADDITIONAL_PROPERTIES_NARROWED", "UNEVALUATED_PROPERTIES_NARROWED"), _or_lenient(_NARROWED)
    ),
    "REQUIRED_ATTRIBUTE_ADDED": _REQUIRED,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": Fix(
        _REQUIRED.backward, "keep `{name}` as a required property"
    ),
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": Fix(
        "data of the old schema, which is open, may hold anything called `{name}`: let it be anything by an "
        "empty schema" + _LENIENT,
        _OPEN_KEEP,
    ),
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": Fix(
        "data of the old schema, which is open, may hold anything called `{name}`: let it be anything by an "
        "empty schema, not required" + _LENIENT,
        _OPEN_KEEP,
    ),
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": Fix(
        "do not require `{name}`, which the old schema, being open, says nothing of, and let it be anything "
        "by an empty schema",
        "keep `{name}` as a required property",
    ),
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": Fix(
        "data of the old schema, which is open, may hold anything as item {name}: let it be anything by an "
        "empty schema",
        _OPEN_ITEM,
    ),
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": Fix(
        "keep `{name}`, or permit additional properties" + _LENIENT,
        "leave `{name}` out, which the old schema, being closed, refuses" + _LENIENT,
    ),
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": Fix(
        "keep item {name}, or permit additional items",
        "leave item {name} out, which the old schema, being closed, refuses",
    ),
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": Fix(
        "keep `{name}`, or let the schema for additional properties take all that it took" + _LENIENT,
        "let `{name}` be no more than the old schema's pattern or additional properties take" + _LENIENT,
    ),
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": Fix(
        "keep item {name}, or let the schema for additional items take all that it took",
        "let item {name} be no more than the old schema's additional items take",
    ),
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": Fix(
        "let `{name}` take all that the old schema's pattern or additional properties took" + _LENIENT,
        "keep `{name}`, or let additional properties be no more than it took" + _LENIENT,
    ),
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": Fix(
        "let item {name} take all that the old schema's additional items took",
        "keep item {name}, or let additional items be no more than it took",
    ),
    **dict.fromkeys(("ENUM_ARRAY_NARROWED", "ENUM_ARRAY_CHANGED"), _VALUES),
    "TYPE_CHANGED": Fix(
        "keep the type, {old}, or take both types by `anyOf`", "keep the type, {old}"
    ),
    "TYPE_NARROWED": Fix(
        "keep the type {old}: not every number is an integer",
        "keep the type {old}: the old schema refuses what is no integer",
    ),
    "COMBINED_TYPE_CHANGED": Fix(
        "keep the kind of combination of the old schema, or let it become `anyOf`",
        "keep the kind of combination of the old schema",
    ),
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _BRANCHES,
    "SUM_TYPE_NARROWED": Fix(
        "keep all branches of the old schema's `anyOf` or `oneOf`, or types of its `type`",
        "add no branch to `anyOf` or `oneOf`, and no type to `type`: the old schema refuses its data",
    ),
    "SUM_TYPE_EXTENDED": _BRANCHES,
    "PRODUCT_TYPE_EXTENDED": Fix(
        "demand no more than the old schema does: another branch of `allOf`, or kind of keyword, does so",
        "keep all that the old schema demands by its branches of `allOf` and kinds of keywords",
    ),
    "NOT_TYPE_EXTENDED": Fix(
        "let `not` exclude no more than in the old schema: {old}",
        "let `not` exclude no less than in the old schema: {old}",
    ),
}  # fmt: skip
