"""Explanations of changes to JSON schemas: their positions in both texts, and compatible alternatives."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from registry.domain.schemas.contract import Budget, Change, Part
from registry.domain.schemas.explaining import Fix, Lines, Spot, excerpt, fix_text
from registry.domain.schemas.json_text import Json

from .change_set import LocatedChange
from .changes import difference
from .compatibility import compare
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
    "remove `{name}`, which the old schema lacks", "keep `{name}` as in the old schema: {old}"
)
_MINIMUM: Final = Fix("keep `{name}` at {old} or less", "keep `{name}` at {old} or more")
_MAXIMUM: Final = Fix("keep `{name}` at {old} or more", "keep `{name}` at {old} or less")
_MULTIPLE: Final = Fix(
    "keep `{name}` at {old}, or use a divisor of it",
    "keep `{name}` at {old}, or use a multiple of it",
)
_FORBIDDEN: Final = Fix(
    "continue to permit what `{name}` permitted", "continue to forbid what `{name}` forbids: {old}"
)
_NARROWED: Final = Fix("do not restrict `{name}` by a schema", "keep `{name}` as in the old schema: {old}")
_REQUIRED: Final = Fix("do not require `{name}`, or give it a default", "continue to require `{name}`")
_VALUES: Final = Fix(
    "keep all values of the old schema: {old}",
    "list only values of the old schema: {old}",
)
_LENIENT: Final = ", or set compatibilityPolicy to LENIENT"
_OPEN_KEEP: Final = (
    "keep `{name}`" + _LENIENT + ": without it, data of the new schema may contain anything in its place"
)
_OPEN_ITEM: Final = "keep item {name}: without it, data of the new schema may contain anything in its place"
_BRANCHES: Final = Fix(
    "for each branch of the old schema, keep one that accepts all its data",
    "let each branch accept only data that a branch of the old schema accepts",
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
    everything = found.located_changes(budget)
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
        spot = _position_of(change, side) if change.pairs else Spot(self._sides[side].value)
        if spot is None:
            return None
        lines = self._lines[side]
        return Part(excerpt(spot.value)) if lines is None else lines.part(spot)


def _position_of(change: LocatedChange, side: Literal[0, 1]) -> Spot | None:
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
        "remove what depends on `{name}`, as in the old schema",
        "keep what depends on `{name}`: {old}",
    )),
    **dict.fromkeys(("DEPENDENCY_ARRAY_EXTENDED", "DEPENDENCY_ARRAY_CHANGED"), Fix(
        "let `{name}` require no other properties than {old}",
        "let `{name}` still require the properties {old}",
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
    "PATTERN_CHANGED": Fix("keep the pattern {old}, or remove it", "keep the pattern {old}"),
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
        "use an empty schema for `{name}`" + _LENIENT
        + ": the old schema is open, so its data may have any value there",
        _OPEN_KEEP,
    ),
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": Fix(
        "do not require `{name}`, and use an empty schema for it" + _LENIENT
        + ": the old schema is open, so its data may have any value there",
        _OPEN_KEEP,
    ),
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": Fix(
        "do not require `{name}`, and use an empty schema for it: the old schema is open and does not "
        "define it",
        "keep `{name}` as a required property",
    ),
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": Fix(
        "use an empty schema for item {name}: the old schema is open, so its data may have any value there",
        _OPEN_ITEM,
    ),
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": Fix(
        "keep `{name}`, or permit additional properties" + _LENIENT,
        "remove `{name}`" + _LENIENT + ": the old schema is closed and refuses it",
    ),
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": Fix(
        "keep item {name}, or permit additional items",
        "remove item {name}: the old schema is closed and refuses it",
    ),
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": Fix(
        "keep `{name}`, or let the schema for additional properties accept all that it accepted" + _LENIENT,
        "let `{name}` accept no more than the old schema's pattern or additional properties do" + _LENIENT,
    ),
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": Fix(
        "keep item {name}, or let the schema for additional items accept all that it accepted",
        "let item {name} accept no more than the old schema's additional items do",
    ),
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": Fix(
        "let `{name}` accept all that the old schema's pattern or additional properties accepted" + _LENIENT,
        "keep `{name}`, or let additional properties accept no more than it did" + _LENIENT,
    ),
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": Fix(
        "let item {name} accept all that the old schema's additional items accepted",
        "keep item {name}, or let additional items accept no more than it did",
    ),
    **dict.fromkeys(("ENUM_ARRAY_NARROWED", "ENUM_ARRAY_CHANGED"), _VALUES),
    "TYPE_CHANGED": Fix(
        "keep the type {old}, or accept both types by `anyOf`", "keep the type {old}"
    ),
    "TYPE_NARROWED": Fix(
        "keep the type {old}: not every number is an integer",
        "keep the type {old}: the old schema only accepts integers",
    ),
    "COMBINED_TYPE_CHANGED": Fix(
        "keep the combination of the old schema, or use `anyOf`",
        "keep the combination of the old schema",
    ),
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _BRANCHES,
    "SUM_TYPE_NARROWED": Fix(
        "keep all branches of the old schema's `anyOf` or `oneOf`, or all types in its `type`",
        "add no branch to `anyOf` or `oneOf`, and no type to `type`: the old schema refuses its data",
    ),
    "SUM_TYPE_EXTENDED": _BRANCHES,
    "PRODUCT_TYPE_EXTENDED": Fix(
        "require no more than the old schema, as another branch of `allOf` or keywords for another type do",
        "keep everything that the old schema requires by branches of `allOf` and keywords for several types",
    ),
    "NOT_TYPE_EXTENDED": Fix(
        "let `not` exclude no more than in the old schema: {old}",
        "let `not` exclude no less than in the old schema: {old}",
    ),
}  # fmt: skip
