"""The versions of a subject, in a way that every registry knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ErrorAnswer
from .paths import subject_path

if TYPE_CHECKING:
    from .client import RegistryClient


def listed_versions(
    registry: RegistryClient, subject: str, *, deleted: bool, **moment: Any
) -> dict[int, bool]:
    """Return the numbers of a subject's versions, each with true if it is soft-deleted.

    ``moment`` holds the parameters of a read of the past.

    Raises :class:`.errors.ErrorAnswer` with status 404 if there is none.
    """
    path = f"{subject_path(subject)}/versions"
    if not deleted:
        return dict.fromkeys(registry.pages(path, int, **moment), False)
    everything = list(registry.pages(path, int, deleted=True, **moment))
    try:
        active = set(registry.pages(path, int, **moment))
    except ErrorAnswer as error:
        if error.status != 404 or error.is_unknown_resource:
            raise
        active = set()
    return {number: number not in active for number in everything}
