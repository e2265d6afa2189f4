"""Explanations of changes to JSON schemas: their positions in both texts, and compatible alternatives."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from registry.domain.schemas.contract import Budget, Change, Part
from registry.domain.schemas.excerpts import Lines, Spot, excerpt
from registry.domain.schemas.fixes import fix_text
from registry.domain.schemas.json_scanner import Json

from .changes import difference
from .compatibility import compare
from .fixes import FIXES
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
