"""Keys for the parts of a document, equal for parts that are written alike, in one pass."""

from __future__ import annotations

from typing import Any

from registry.domain.schemas.json_scanner import Json


class Sameness:
    """Assigns equal keys to equal parts, all of which must outlive it."""

    __slots__ = ("_known", "_of")

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}
        self._of: dict[int, int] = {}

    def key(self, value: Json) -> Any:
        """Return a number for an array or an object, else a pair; the order of members does not matter."""
        todo = [value]
        while todo:
            piece = todo[-1]
            if not _is_container(piece) or id(piece) in self._of:
                todo.pop()
                continue
            inside = [
                each
                for each in (piece.values() if type(piece) is dict else piece)
                if _is_container(each) and id(each) not in self._of
            ]
            if inside:
                todo += inside
                continue
            self._of[id(piece)] = self._known.setdefault(self._content(piece), len(self._known))
            todo.pop()
        return self._shallow(value)

    def _content(self, piece: Json) -> Any:
        if type(piece) is dict:
            return frozenset((name, self._shallow(each)) for name, each in piece.items())
        return tuple(map(self._shallow, piece))

    def _shallow(self, value: Json) -> Any:
        return self._of[id(value)] if _is_container(value) else (type(value), str(value))


def _is_container(value: Json) -> bool:
    return type(value) is dict or type(value) is list
