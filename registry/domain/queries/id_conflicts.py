"""Ids that stand for more than one schema content in a context.

Other writers can assign an id twice. The fold keeps both versions, because they may have different owners,
and reads by id return the one recorded first. This module lists such ids.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .versions import Registered, at


def clashes(view: View) -> Iterator[tuple[Registered, Registered] | None]:
    """Walk the versions whose id has other content, each with the version that answers for that id.

    Ordered by context and id. Looks at the id of every version.
    """
    begun, waiting, answering = b"", b"", None
    for key, _ in scan(view, layout.ID):
        prefix = key[: key.index(b"\0") + 1 + 4]
        if prefix != begun:
            begun, waiting, answering = prefix, key, None  # most ids have one row
            yield None
            continue
        if waiting:
            answering, waiting = _at(view, waiting, prefix), b""
        each = _at(view, key, prefix)
        if answering is None:
            answering = each
        clashing = each is not None and answering is not None and each.row.md5 != answering.row.md5
        yield (each, answering) if each is not None and answering is not None and clashing else None


def _at(view: View, key: bytes, prefix: bytes) -> Registered | None:
    return at(view, layout.version_key_of_id(key, prefix, prefix[1:-4]))
