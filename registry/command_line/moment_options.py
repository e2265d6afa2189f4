"""The options that ask for a past moment, and the check that a registry knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from registry.client.errors import ErrorAnswer

from .exit_status import Failure

if TYPE_CHECKING:
    from registry.client.client import RegistryClient

_at_offset = click.option(
    "--at-offset", type=click.IntRange(0), metavar="N", help="Show it as after the record at this offset."
)
_at_time = click.option(
    "--at-time", metavar="TIME", help="Show it as it was then: ISO 8601, or ms since the epoch."
)


def moment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--at-offset`` and ``--at-time`` to a verb."""
    return _at_offset(_at_time(command))


def moment_params(
    registry: RegistryClient, path: str, at_offset: int | None, at_time: str | None
) -> dict[str, Any]:
    """Return the parameters of a read of the past, none for the present.

    Raises :class:`.exit_status.Failure` if the registry ignores them: it would answer with the present.
    """
    if at_offset is None and at_time is None:
        return {}
    if at_offset is not None and at_time is not None:
        raise click.UsageError("give --at-offset or --at-time, not both", click.get_current_context())
    _require_past(registry, path)
    return {"atOffset": at_offset, "atTime": at_time}


def _require_past(registry: RegistryClient, path: str) -> None:
    # A registry that reads the parameter refuses this value, whether or not the resource exists.
    try:
        registry.get(path, atOffset="none")
    except ErrorAnswer as error:
        if error.status == 400:
            return
        if not error.is_verdict and not error.is_unknown_resource:
            raise
    raise Failure(
        f"{registry.url} knows no reads of the past and would show the present: "
        "leave out --at-offset and --at-time, or update the registry"
    )
