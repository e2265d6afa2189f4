"""Part of what a Protobuf text declares, taken from its words without parsing them: its numbered names.

Equal for texts with equal canonical texts, and different for most others. Fields and constants are told from
options by the word in front of the name, so nothing need be known about where a name stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from registry.domain.schemas.contract import GLANCE_MAX, Fingerprints, digest

from .source import WORD, int32, tokens

# What stands in front of the names of constants and maps. In front of other fields' names stands their type.
_BEFORE_UNTYPED: Final = frozenset("{};>")
# Words in front of an option's name: `option name = 1`, and `(custom) . name = 1`.
_BEFORE_OPTION: Final = frozenset({"option", "."})


def outline(text: str) -> Fingerprints | None:
    """Return digests as a schema's fingerprints are, or None if only the parser can tell."""
    if len(text) > GLANCE_MAX or not (";" in text or "{" in text):
        return None  # without these two it may be the Base64 of a descriptor
    words = tokens(text)
    if "extend" in words and "group" in words:
        return None  # the parser drops groups inside `extend`
    own = digest(sorted(_numbered(words)))
    return Fingerprints(own, own)


def _numbered(words: Sequence[str]) -> Iterator[str]:
    """Yield type, name and number of each field, group and constant; no type for constants and maps."""
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
