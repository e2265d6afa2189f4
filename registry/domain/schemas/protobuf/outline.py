"""The outline of a Protobuf text: its numbered names, found without parsing.

Outlines are equal for texts with equal canonical texts, and different for most others. The word before a name
distinguishes fields and constants from options, so the name's context does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from registry.domain.schemas.contract import GLANCE_MAX, Fingerprints, digest

from .source import WORD, int32, tokens

# The words before names of constants and maps; the names of other fields follow their types.
_BEFORE_UNTYPED: Final = frozenset("{};>")
# The words before an option's name: `option name = 1` and `(custom) . name = 1`.
_BEFORE_OPTION: Final = frozenset({"option", "."})


def outline(text: str) -> Fingerprints | None:
    """Return digests comparable with a schema's fingerprints, or None if only the parser can tell."""
    if len(text) > GLANCE_MAX or not (";" in text or "{" in text):
        return None  # a text with neither may be the Base64 of a descriptor
    words = tokens(text)
    if "extend" in words and "group" in words:
        return None  # the parser drops groups inside `extend`
    own = digest(sorted(_numbered(words)))
    return Fingerprints(own, own)


def _numbered(words: Sequence[str]) -> Iterator[str]:
    """Yield type, name and number of fields, groups and constants; no type for constants and maps."""
    at = -1
    for _ in range(words.count("=")):
        at = words.index("=", at + 1)
        if at < 2:
            continue
        kind, name, _, number = words[at - 2 : at + 2]
        if kind in _BEFORE_OPTION or name[0] not in WORD:
            continue
        if kind[0] not in WORD and kind not in _BEFORE_UNTYPED:
            continue
        yield f"{kind if kind[0] in WORD else ''} {name} {int32(number)}"
