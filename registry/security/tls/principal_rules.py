"""Rules that map the subject's name of a client certificate to a principal.

The syntax is that of Kafka's ``ssl.principal.mapping.rules``: a list of ``RULE:pattern/replacement/[LU]`` and
``DEFAULT``, of which the first that matches the whole name applies. ``L`` and ``U`` change the result to
lower or upper case. RE2 matches, so that no name takes long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import re2

# As in Kafka: slashes and commas may be part of a pattern after a backslash, commas also without.
_PART = r"((?:\\.|[^\\/])*)"
_RULE = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,\s*|$)")
_REFERENCE = re.compile(r"\$(\d)|\\(.)")
_MEMORY_MAX = 1 << 20  # of a compiled pattern

# Returns the principal's name, or ``None`` if the rule does not apply.
_Rule = Callable[[str], str | None]


class PrincipalRules:
    """The rules of one setting. Raises :class:`ValueError` if they are not valid."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        place = 0
        while place < len(text):
            match = _RULE.match(text, place)
            if match is None:
                raise ValueError(f"expected DEFAULT or RULE:pattern/replacement/ at {text[place:][:60]!r}")
            self._rules.append(_default if match[1] else _mapping(match[2], match[3], match[4]))
            place = match.end()
        if not self._rules:
            raise ValueError("there is no rule")

    def principal(self, subject: str) -> str:
        """Return the principal's name; empty if no rule applies."""
        return next((name for rule in self._rules if (name := rule(subject)) is not None), "")


def _default(subject: str) -> str:
    return subject


def _mapping(pattern: str, replacement: str, case: str) -> _Rule:
    compiled = _compile(pattern)

    def rule(subject: str) -> str | None:
        match = compiled.fullmatch(subject)
        if match is None:
            return None
        name = _replace(replacement, match)
        return name.lower() if case == "L" else name.upper() if case == "U" else name

    return rule


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not valid"
        reason = reason.decode() if isinstance(reason, bytes) else reason
        raise ValueError(f"the pattern {pattern!r} is not supported by RE2: {reason}") from None


def _replace(replacement: str, match: Any) -> str:
    """Return the replacement with ``$1`` to ``$9``, or ``$0`` for all; unknown groups stay as they are."""

    def group(reference: re.Match[str]) -> str:
        if reference[2] is not None:
            return str(reference[2])
        number = int(reference[1])
        return (match.group(number) or "") if number <= match.re.groups else str(reference[0])

    return _REFERENCE.sub(group, replacement)
