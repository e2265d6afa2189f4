"""Ids that stand for more than one content in a context.

Other writers can bind an id twice. That concerns two owners, so the fold leaves both versions as they are,
and reads by id see the one that was recorded first; who wants to know asks here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from . import rows
from .rows import View
from .versions import Registered, at


def clashes(view: View) -> Iterator[tuple[Registered, Registered]]:
    """Each version that has an id of another content, with the version that answers for that id.

    By context and id. Looks at the id of every version.
    """
    keys = (key for key, _ in rows.scan(view, rows.ID))
    for prefix, group in groupby(keys, _prefix):
        packed = prefix[1:-4]
        versions = (at(view, rows.version_key_of_id(key, prefix, packed)) for key in _if_several(group))
        there = [each for each in versions if each is not None]
        yield from ((each, there[0]) for each in there if each.row.md5 != there[0].row.md5)


def _prefix(key: bytes) -> bytes:
    return key[: key.index(b"\0") + 1 + 4]


def _if_several(keys: Iterator[bytes]) -> Iterator[bytes]:
    first = next(keys)
    for count, key in enumerate(keys):
        if not count:
            yield first
        yield key
