"""The outline of a JSON schema: the strings of its text in their order, found without parsing.

Equal canonical texts have equal outlines. Numbers are left out, because they have many spellings.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from registry.domain.schemas.contract import GLANCE_MAX, Fingerprints, digest

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def outline(text: str) -> Fingerprints | None:
    """Return digests comparable with a schema's fingerprints, or None if only the parser can tell."""
    if len(text) > GLANCE_MAX:
        return None
    try:
        strings = _STRING.findall(orjson.dumps(orjson.loads(text)).decode())
    except (ValueError, TypeError):
        return None
    own = digest(["".join(strings)])
    return Fingerprints(own, own)
