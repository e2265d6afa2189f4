"""The options that ask for a past moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_at_offset = click.option(
    "--at-offset", type=click.IntRange(0), metavar="N", help="Show the state after the record at this offset."
)
_at_time = click.option(
    "--at-time", metavar="TIME", help="Show the state at this time: ISO 8601, or ms since the epoch."
)


def moment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--at-offset`` and ``--at-time`` to a verb."""
    return _at_offset(_at_time(command))


def moment_params(at_offset: int | None, at_time: str | None) -> dict[str, Any]:
    """Return the parameters of a read of the past, none for the present."""
    if at_offset is None and at_time is None:
        return {}
    if at_offset is not None and at_time is not None:
        raise click.UsageError("give --at-offset or --at-time, not both", click.get_current_context())
    from registry.cli.client.past import AT_OFFSET, AT_TIME  # noqa: PLC0415 - the help needs no client

    return {AT_OFFSET: at_offset, AT_TIME: at_time}
