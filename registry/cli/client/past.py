"""Reads of the past. A registry without them ignores the parameters and answers with the present."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx

from .errors import RegistryError
from .messages import Answer

AT_OFFSET: Final = "atOffset"
AT_TIME: Final = "atTime"
# On every answer about the past: the offset of the last record that it includes.
_PROOF: Final = "x-registry-at-offset"


class AnsweredWithPresent(RegistryError):
    """An answer about the present to a question about the past."""


def asks_for_past(params: Mapping[str, Any]) -> bool:
    """Return true if a request names a moment."""
    return any(params.get(each) is not None for each in (AT_OFFSET, AT_TIME))


def check_past(answer: Answer) -> None:
    """Raise :class:`AnsweredWithPresent` for an answer that does not say which moment it shows.

    Each answer is checked, because behind one address there can be servers of several versions.
    """
    answered = answer.is_success or answer.status == httpx.codes.NOT_FOUND
    if answered and _PROOF not in answer.headers:
        raise AnsweredWithPresent(
            f"{answer.address.url} knows no reads of the past and answered with the present: "
            "leave out --at-offset and --at-time, or update the registry"
        )
