"""Whether a pattern of a schema is found in a name, in time that grows with the name and no faster."""

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
    """Whether ``pattern`` matches some part of ``name``; one that cannot be read safely matches nothing.

    RE2 does it, as it never takes long. What it does not know, such as looking ahead, Python's own engine
    does for short names, where hardly anything is repeated.
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
