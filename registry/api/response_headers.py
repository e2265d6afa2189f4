"""Headers that the operator sets on every answer, such as security headers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from email.utils import formatdate
from typing import NamedTuple

from .answers import Header

# Headers that differ between answers, so that answers prepared in advance cannot include them.
_OF_EACH_ANSWER = frozenset({b"x-request-id", b"x-registry-offset", b"etag", b"warning", b"content-type"})


class _Rule(NamedTuple):
    name: bytes
    replaces: bool
    value: Callable[[], bytes]


class ResponseHeaders:
    """Applies the operator's rules to the headers of an answer."""

    def __init__(self, rules: Sequence[tuple[str, str, str]] = ()) -> None:
        """``rules``: action (``set``, ``add``, ``setDate``, ``addDate``), name and value, in order."""
        self._rules = [_rule(*each) for each in rules]
        varying = any(action.endswith("Date") for action, _, _ in rules)
        named = {rule.name for rule in self._rules}
        # True if the result for the other headers is the same for every answer.
        self.constant = not varying and _OF_EACH_ANSWER.isdisjoint(named)

    def applied(self, headers: Iterable[Header]) -> list[Header]:
        """Return ``headers`` with the rules applied."""
        found = list(headers)
        for rule in self._rules:
            if rule.replaces:
                found = [each for each in found if each[0] != rule.name]
            found.append((rule.name, rule.value()))
        return found


def _rule(action: str, name: str, value: str) -> _Rule:
    encoded = value.encode("latin-1")
    return _Rule(
        name.lower().encode(),
        action.startswith("set"),
        _date(int(value)) if action.endswith("Date") else lambda: encoded,
    )


def _date(offset_ms: int) -> Callable[[], bytes]:
    return lambda: formatdate(time.time() + offset_ms / 1000, usegmt=True).encode()
