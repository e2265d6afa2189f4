"""The content of a running registry, as streams that the caller opens by a client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from registry.domain.model import Subject


class RunningRegistry(Protocol):
    """Subjects, versions, configs and modes of all contexts, soft-deleted ones included.

    The errors are those of the client, for the caller.
    """

    @property
    def subjects(self) -> Sequence[str]:
        """The qualified names of all subjects."""
        ...

    def versions(self) -> Iterator[dict[str, Any]]:
        """Yield all versions as ``GET /schemas`` shows them."""
        ...

    def configs(self) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Yield all configs with their scopes, as ``GET /config/{subject}`` shows them."""
        ...

    def modes(self) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Yield all modes with their scopes, as ``GET /mode/{subject}`` shows them."""
        ...
