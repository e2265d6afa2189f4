"""Explanations of changes in all formats: excerpts of JSON values, lines of their parts, and suggestions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from .contract import Part
from .json_text import Json, print_json, quote_json

# The longest excerpt.
CHARACTERS_MAX: Final = 300
LINE_MAX: Final = 160
# The largest schema that is pretty-printed.
VALUES_MAX: Final = 200_000

_STEP: Final = "  "
# The deepest level that is indented further than its parent, so that indentation does not dominate lines.
_STEPS_MAX: Final = 50
_SHOWN_MAX: Final = 60


class Spot(NamedTuple):
    """A part of a JSON value by its holder; ``None`` stands for the whole value."""

    holder: Json
    key: str | int | None = None

    @property
    def value(self) -> Json:
        """The part."""
        return self.holder if self.key is None else self.holder[self.key]


def cut(text: str, most: int = CHARACTERS_MAX) -> str:
    """Return the text, cut at ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def excerpt(value: Json) -> str:
    """Return the value as compact JSON, cut; a long value is only printed as far as needed."""
    parts: list[str] = []
    size = 0
    for piece in _pieces(value):
        parts.append(piece)
        size += len(piece)
        if size > CHARACTERS_MAX:
            break
    return cut("".join(parts))


def _pieces(value: Json) -> Iterator[str]:
    stack: list[tuple[Iterator[tuple[str, Json]], str]] = [(iter([("", value)]), "")]
    while stack:
        members, end = stack[-1]
        following = next(members, None)
        if following is None:
            stack.pop()
            yield end
            continue
        prefix, value = following
        yield prefix
        if type(value) is dict:
            yield "{"
            stack.append((_members(value), "}"))
        elif type(value) is list:
            yield "["
            stack.append((_elements(value), "]"))
        else:
            yield _scalar(value)


def _scalar(value: Json) -> str:
    return quote_json(value[: CHARACTERS_MAX + 1]) if type(value) is str else print_json(value)


def _members(value: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    for place, (name, member) in enumerate(value.items()):
        yield f"{',' if place else ''}{_scalar(name)}:", member


def _elements(value: list[Json]) -> Iterator[tuple[str, Json]]:
    for place, element in enumerate(value):
        yield "," if place else "", element


class Lines:
    """A value printed in lines, two blanks a level, as by ``json.tool``; empty if it is too large."""

    def __init__(self, value: Json) -> None:
        self.lines: list[str] = []
        self._at: dict[tuple[int, str | int | None], int] = {}
        if not self._print(value):
            self.lines.clear()
            self._at.clear()

    def part(self, spot: Spot) -> Part:
        """Return the part at ``spot`` with its line, if it is in this text."""
        line = self._at.get((id(spot.holder), spot.key), 0)
        shown = self.lines[line - 1].strip() if line else ""
        text = excerpt(spot.value)
        if shown.endswith(("{", "[")):
            shown = shown[:-1] + text  # A line that is not empty.
        return Part(text, line, cut(shown, LINE_MAX))

    def _print(self, value: Json) -> bool:
        self._at[id(value), None] = 1
        stack: list[tuple[Iterator[tuple[str | int, Json]], Json]] = []
        name = ""
        while len(self.lines) <= VALUES_MAX:
            indent = _indent(len(stack))
            if (type(value) is dict or type(value) is list) and value:
                members = iter(value.items() if isinstance(value, dict) else enumerate(value))
                self.lines.append(f"{indent}{name}{'{' if type(value) is dict else '['}")
                self._at[id(value), None] = len(self.lines)
                stack.append((members, value))
            else:
                if type(value) is dict or type(value) is list:
                    self._at[id(value), None] = len(self.lines) + 1
                self.lines.append(f"{indent}{name}{print_json(value)}{',' if stack else ''}")
            while stack:
                members, holder = stack[-1]
                following = next(members, None)
                if following is not None:
                    key, value = following
                    self._at[id(holder), key] = len(self.lines) + 1
                    name = f"{quote_json(key)}: " if isinstance(key, str) else ""
                    break
                stack.pop()
                self._close(holder, last=not stack, indent=_indent(len(stack)))
            else:
                return True
        return False

    def _close(self, holder: Json, *, last: bool, indent: str) -> None:
        self.lines[-1] = self.lines[-1].removesuffix(",")
        mark = "}" if type(holder) is dict else "]"
        self.lines.append(f"{indent}{mark}{'' if last else ','}")


def _indent(depth: int) -> str:
    return _STEP * min(depth, _STEPS_MAX)


class Fix(NamedTuple):
    """A suggestion for an incompatible change, for the new schema, since only that one can still be altered.

    Texts may contain ``{name}``, the changed part, and ``{old}`` and ``{new}``, its texts.
    """

    # If the new schema must read what the old one wrote.
    backward: str
    # If the old schema must read what the new one writes.
    forward: str


def fix_text(
    fixes: Mapping[str, Fix],
    change: str,
    reader_is: Literal["new", "old"],
    name: str,
    old: Part | None,
    new: Part | None,
) -> str:
    """Return the sentence for an incompatible change."""
    fix = fixes[change]
    text = fix.backward if reader_is == "new" else fix.forward
    return text.format(name=name, old=_format(old), new=_format(new))


def _format(part: Part | None) -> str:
    return "nothing" if part is None else cut(part.text, _SHOWN_MAX)
