"""The response header that names an earlier version equal to the one that was registered."""

from __future__ import annotations

import re
from collections.abc import Sequence

from registry.domain.lookup import duplicates
from registry.domain.parsing.querying import Querying
from registry.domain.rows.view import View
from registry.domain.schemas import InvalidSchema

from .answers import Answer, Header
from .operations import Call

_VERSION = re.compile(rb'\{"id":-?[0-9]+,"version":([0-9]+),')


def equal_to(call: Call, view: View, answer: Answer) -> Querying[Sequence[Header]]:
    """Return ``X-Registry-Equal-To`` for a registration, if an earlier version equals the new one."""
    version = _VERSION.match(answer.body)
    if version is None or version[1] == b"1":
        return ()
    try:
        found = yield from duplicates.equal_to(view, call.subject, int(version[1]))
    except InvalidSchema:
        return ()
    return () if found is None else ((b"x-registry-equal-to", b"%d" % found),)
