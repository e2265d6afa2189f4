"""Paths that a ``.proto`` text imports."""

from __future__ import annotations

from registry.domain.schemas.contract import Links, Use

from .bundled import FILES
from .source import tokens


def links(text: str) -> Links:
    """Return the imports of a text, without the files that every registry has."""
    words, depth = tokens(text), 0
    paths: dict[str, None] = {}
    for place, word in enumerate(words):
        depth += (word == "{") - (word == "}")
        if word != "import" or depth:
            continue
        at = place + 1 + (words[place + 1] in ("public", "weak"))
        if at < len(words) and words[at][:1] in ("'", '"'):
            paths[words[at][1:-1]] = None
    uses = tuple(Use(path, ()) for path in paths if path not in FILES)
    return Links("", (), uses, by="path")
