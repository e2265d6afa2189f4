"""Headers that the operator sets on every answer, such as security headers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from email.utils import formatdate
from typing import NamedTuple

from .answers import Header

# Headers that differ between answers, so that answers prepared in advance cannot include them.
_OF_EACH_ANSWER = frozenset(
    {
        b"x-request-id", b"x-registry-offset", b"etag", b"warning", b"content-type", b"content-encoding",
        b"vary", b"location", b"retry-after", b"www-authenticate", b"allow",
    }
)  # fmt: skip
# Headers that the HTTP server writes itself, at most once.
_OF_THE_SERVER = frozenset({b"date", b"content-length", b"connection", b"transfer-encoding"})


class _Rule(NamedTuple):
    # As the operator wrote it, and in lower case.
    name: bytes
    key: bytes
    replaces: bool
    value: Callable[[], bytes]


class ResponseHeaders:
    """Applies the operator's rules to the headers of an answer.

    Names keep the case in which the operator wrote them. No header is sent twice because both the operator
    and this server have it: the operator's replaces it, except that ``add`` leaves alone what describes the
    answer itself, and adds to ``Vary``. What the HTTP server writes (:data:`_OF_THE_SERVER`) has no rules.
    """

    def __init__(self, rules: Sequence[tuple[str, str, str]] = ()) -> None:
        """``rules``: action (``set``, ``add``, ``setDate``, ``addDate``), name and value, in order."""
        self._rules = [rule for rule in (_rule(*each) for each in rules) if rule.key not in _OF_THE_SERVER]
        varying = any(action.endswith("Date") for action, _, _ in rules)
        named = {rule.key for rule in self._rules}
        # True if the result for the other headers is the same for every answer.
        self.constant = not varying and _OF_EACH_ANSWER.isdisjoint(named)

    def applied(self, headers: Iterable[Header]) -> list[Header]:
        """Return ``headers`` with the rules applied."""
        found = list(headers)
        operators: set[bytes] = set()
        for rule in self._rules:
            value = rule.value()
            own = [each for name, each in found if name.lower() == rule.key]
            if own and not rule.replaces and rule.key not in operators:
                if rule.key == b"vary":
                    value = b", ".join((*own, value))
                elif rule.key in _OF_EACH_ANSWER:
                    continue
            if rule.replaces or rule.key not in operators:
                found = [each for each in found if each[0].lower() != rule.key]
            operators.add(rule.key)
            found.append((rule.name, value))
        return found


def _rule(action: str, name: str, value: str) -> _Rule:
    encoded = value.encode("latin-1")
    return _Rule(
        name.encode(),
        name.lower().encode(),
        action.startswith("set"),
        _date(int(value)) if action.endswith("Date") else lambda: encoded,
    )


def _date(offset_ms: int) -> Callable[[], bytes]:
    return lambda: formatdate(time.time() + offset_ms / 1000, usegmt=True).encode()
