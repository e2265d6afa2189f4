"""``registrar mode get | set | delete``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from registry.cli.client.resources import Mode, scope_path
from registry.cli.output import OK, json_option, print_json, print_lines
from registry.cli.registry_flags import (
    confirm_everything,
    moment_options,
    moment_params,
    scope_argument,
    with_registry,
    yes_option,
)
from registry.cli.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient

_MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_STATUS = "Exit status: 0 done, 1 not found or refused, 2 no answer or wrong usage."
_force = click.option("--force", is_flag=True, help="Set IMPORT even if schemas exist.")


@click.group(cls=VerbGroup)
def mode() -> None:
    """Show or change which writes are accepted."""


@mode.command("get", cls=Verb, epilog=_STATUS)
@scope_argument
@click.option("--own", is_flag=True, help="Only the mode set on SUBJECT itself, not the inherited one.")
@moment_options
@json_option
@with_registry
def _get(
    registry: RegistryClient, *, subject: str, own: bool, at_offset: int | None, at_time: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Print the effective mode of SUBJECT or a context (":.ctx:"); without SUBJECT, of the whole registry."""
    moment = moment_params(at_offset, at_time)
    return _print(registry, subject, as_json=as_json, own=own, **moment)


@mode.command("set", cls=Verb, epilog=_STATUS)
@click.argument("value", metavar="MODE", type=click.Choice(_MODES, case_sensitive=False))
@scope_argument
@_force
@json_option
@with_registry
def _set(registry: RegistryClient, *, value: str, subject: str, force: bool, as_json: bool) -> int:
    """Set the MODE of SUBJECT or a context (":.ctx:"); without SUBJECT, of the whole registry.

    MODE is READWRITE, READONLY, READONLY_OVERRIDE, IMPORT or FORWARD.
    """
    registry.put(scope_path("mode", subject), {"mode": value.upper()}, force=force)
    return _print(registry, subject, as_json=as_json)


@mode.command("delete", cls=Verb, epilog=_STATUS)
@scope_argument
@yes_option
@json_option
@with_registry
def _delete(registry: RegistryClient, *, subject: str, yes: bool, as_json: bool) -> int:
    """Remove the mode of SUBJECT; print the effective mode, which it then inherits.

    Without SUBJECT, remove the mode of the whole registry, after a confirmation or with --yes.
    """
    confirm_everything(subject, "Remove the mode of the whole registry?", yes=yes)
    registry.delete(scope_path("mode", subject))
    return _print(registry, subject, as_json=as_json)


def _print(registry: RegistryClient, subject: str, *, as_json: bool, own: bool = False, **moment: Any) -> int:
    found = registry.get(
        scope_path("mode", subject), Mode, defaultToGlobal=bool(subject) and not own, **moment
    )
    if as_json:
        print_json({"mode": found["mode"]})
    else:
        print_lines([found["mode"]])
    return OK
