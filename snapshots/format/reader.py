"""Reading the files of a snapshot, each held against what is said of it."""

from __future__ import annotations

import hashlib

from .location import Location, Missing
from .manifest import MANIFEST, BadManifest, Manifest, Part


class Unusable(Exception):
    """The snapshot is not what its manifest says, or cannot be had; the text ends a sentence about it."""


def read_manifest(location: Location, id: str) -> Manifest:
    """What a snapshot says of itself.

    Raises :class:`Unusable`, and :class:`.location.LocationUnreachable`, which says nothing of the snapshot.
    """
    try:
        manifest = Manifest.loads(location.read(f"{id}/{MANIFEST}"))
    except Missing as error:
        raise Unusable(f"{location} has no manifest of it: it is not finished, or half removed") from error
    except BadManifest as error:
        raise Unusable(f"its manifest cannot be used: {error}") from error
    if manifest.id != id:
        raise Unusable(f"its manifest is that of {manifest.id}")
    return manifest


def read_part(location: Location, id: str, part: Part) -> bytes:
    """The content of a part's file, which has the hash that the manifest says. Raises as above."""
    try:
        content = location.read(f"{id}/{part.name}")
    except Missing as error:
        raise Unusable(f"{part.name} is missing") from error
    if len(content) != part.size:
        raise Unusable(f"{part.name} has {len(content)} bytes where its manifest says {part.size}")
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise Unusable(f"{part.name} is damaged: it does not have the SHA-256 that its manifest says")
    return content
