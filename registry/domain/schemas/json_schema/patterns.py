"""Matching of schemas' patterns in time linear in the length of the name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

_PATTERN_MAX: Final = 10_000
_MEMORY_MAX: Final = 1 << 20
_LENGTH_MAX: Final = 200
_REPEATS_MAX: Final = 2
_NESTED: Final = re.compile(r"\)[*+{]")
_REPEAT: Final = re.compile(r"[*+]|\{\d+,")


def is_found(pattern: str, name: str) -> bool:
    """Return true if ``pattern`` matches a part of ``name``; an unsafe pattern matches nothing.

    RE2 does the matching, because it never takes long. Python's own engine handles what RE2 does not support,
    such as lookahead, for short names and patterns with few repetitions.
    """
    if len(pattern) > _PATTERN_MAX:
        return False
    compiled = _compiled(pattern)
    if compiled is None or (isinstance(compiled, re.Pattern) and len(name) > _LENGTH_MAX):
        return False
    return compiled.search(name) is not None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error:
        pass
    if _NESTED.search(pattern) or len(_REPEAT.findall(pattern)) > _REPEATS_MAX:
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
