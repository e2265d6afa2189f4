"""Part of what a JSON schema says, told from its text by a glance: its strings, in their order.

Equal canonical texts have the same ones; numbers are left out, because one number has many spellings.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from registry.domain.schemas.contract import GLANCE_MAX, Fingerprints, digest

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def outline(text: str) -> Fingerprints | None:
    """Return digests as a schema's fingerprints are, or None if only the parser can tell."""
    if len(text) > GLANCE_MAX:
        return None
    try:
        strings = _STRING.findall(orjson.dumps(orjson.loads(text)).decode())
    except (ValueError, TypeError):
        return None
    own = digest(["".join(strings)])
    return Fingerprints(own, own)
