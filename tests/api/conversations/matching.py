"""Comparison of answers with those that conversations expect, including placeholders."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

_KINDS: dict[str, Callable[[Any], bool]] = {
    "id": lambda value: type(value) is int and value > 0,
    "guid": lambda value: isinstance(value, str) and str(uuid.UUID(value)) == value,
    "time": lambda value: type(value) is int and value >= 10**12,
    "text": lambda value: isinstance(value, str),
}
_ANY = "<any>"
_PLACEHOLDER = re.compile(rf"<((?:{'|'.join(_KINDS)})(?:-[a-z0-9-]+)?)>")
_REPEATED = re.compile(r"<(.)\*(\d+)>")


class Difference(Exception):
    """An answer that differs from the expected one."""


class Placeholders:
    """The values of placeholders in one conversation."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def filled(self, text: str) -> str:
        """Return a request's text with the values of its placeholders."""

        def value(match: re.Match[str]) -> str:
            if match[1] not in self._values:
                raise Difference(f"{match[0]} has no value yet")
            found = self._values[match[1]]
            return json.dumps(found)[1:-1] if isinstance(found, str) else str(found)

        return _PLACEHOLDER.sub(value, _repeated(text))

    def compare(self, expected: Any, actual: Any, where: str = "$") -> None:
        """Compare a decoded body with the expected one; raises :class:`Difference`."""
        if expected == _ANY:
            return
        if isinstance(expected, str):
            self._compare_text(_repeated(expected), actual, where)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            if list(expected) != list(actual):
                raise Difference(f"{where}: expected the members {list(expected)}, not {list(actual)}")
            for name, value in expected.items():
                self.compare(value, actual[name], f"{where}.{name}")
        elif isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                raise Difference(f"{where}: expected {len(expected)} entries, not {len(actual)}: {actual}")
            for place, value in enumerate(expected):
                self.compare(value, actual[place], f"{where}[{place}]")
        elif type(expected) is not type(actual) or expected != actual:
            raise Difference(f"{where}: expected {expected!r}, not {actual!r}")

    def _compare_text(self, expected: str, actual: Any, where: str) -> None:
        alone = _PLACEHOLDER.fullmatch(expected)
        if alone is not None:
            self._take(alone[1], actual, where)
            return
        names = _PLACEHOLDER.findall(expected)
        pattern = "(.*)".join(re.escape(part) for part in _PLACEHOLDER.split(expected)[::2])
        match = re.fullmatch(pattern, actual, re.DOTALL) if isinstance(actual, str) else None
        if match is None:
            raise Difference(f"{where}: expected {expected!r}, not {actual!r}")
        for name, value in zip(names, match.groups(), strict=True):
            number = name.startswith(("id", "time")) and value.isdecimal()
            self._take(name, int(value) if number else value, where)

    def _take(self, name: str, actual: Any, where: str) -> None:
        try:
            fits = _KINDS[name.partition("-")[0]](actual)
        except ValueError:
            fits = False
        if not fits or self._values.setdefault(name, actual) != actual:
            raise Difference(f"{where}: expected <{name}> ({self._values.get(name)!r}), not {actual!r}")


def _repeated(text: str) -> str:
    return _REPEATED.sub(lambda match: match[1] * int(match[2]), text)
