"""Rows of former versions of the fold: which this release can read, and what they lack.

Each version since the first only added rows, or a member to some, so the rows of a former one can be read:

* 5 added the usage of sources and the census (tables T and H), which releases before skip, and the time to
  delete marks.
* 4 added webhooks and their positions (tables W and P). Releases before had none.
* 3 added the list of versions with encrypted metadata (table E).
* 2 added the rows that lead from a resource to its associations (tables S and U), and ``updateTs`` to
  associations.

:func:`missing` derives all of that from the other rows. Only two times are not in them: ``createTs`` takes
the place of ``updateTs``, and a mark's is unknown (:func:`.layout.mark_time`).
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from registry.domain.log_format.jackson import dumps
from registry.domain.rows import layout
from registry.domain.rows.version_row import ENCODED_MARK, VersionRow, is_encoded
from registry.domain.rows.view import Change, View, scan

from .fold import FOLD_VERSION

_LISTS_ENCODED, _LISTS_RESOURCES = 3, 2


def can_read(version: str) -> bool:
    """Return true if this release can read rows of a version of the fold, given as stores hold it."""
    return version.isdecimal() and 1 <= int(version) <= FOLD_VERSION


def missing(view: View, version: int) -> Iterator[Change]:
    """Yield the changes after which the rows of ``view``, of a former ``version``, are complete.

    Reads all version rows of versions before 3, otherwise nothing.
    """
    if version < _LISTS_RESOURCES:
        for key, value in scan(view, layout.ASSOCIATION):
            yield from _association_rows(key, value)
    if version < _LISTS_ENCODED:
        for key, value in scan(view, layout.VERSION):
            if _has_encoded_metadata(value):
                yield layout.ENCODED + key[1:], b""


def _association_rows(key: bytes, value: bytes) -> Iterator[Change]:
    fields = orjson.loads(value)
    yield key, dumps(fields | {"updateTs": fields["createTs"]})
    name, namespace = fields.get("resourceName", ""), fields.get("resourceNamespace", "")
    yield layout.resource_name_prefix(name, namespace) + key[1:], b""
    if resource_id := fields.get("resourceId"):
        yield layout.resource_id_prefix(resource_id) + key[1:], b""


def _has_encoded_metadata(value: bytes) -> bool:
    if ENCODED_MARK not in value:
        return False
    row = VersionRow.unpack(value)
    return is_encoded(row.metadata, md5_stored=row.md5_stored)
