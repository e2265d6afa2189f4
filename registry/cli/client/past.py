"""Reads of the past, which a registry may not know: it would ignore the parameters and tell the present."""

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


class TellsThePresent(RegistryError):
    """An answer about the present to a question about the past."""


def asks_for_past(params: Mapping[str, Any]) -> bool:
    """Return true if a request names a moment."""
    return any(params.get(each) is not None for each in (AT_OFFSET, AT_TIME))


def check_past(answer: Answer) -> None:
    """Raise :class:`TellsThePresent` for an answer that tells what is there, or is not, but not when.

    Each answer is checked, because behind one address there can be servers of several versions.
    """
    tells = answer.is_success or answer.status == httpx.codes.NOT_FOUND
    if tells and _PROOF not in answer.headers:
        raise TellsThePresent(
            f"{answer.address.url} knows no reads of the past and answered with the present: "
            "leave out --at-offset and --at-time, or update the registry"
        )
