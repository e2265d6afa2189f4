"""``registrar versions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from registry.cli.client.versions import listed_versions
from registry.cli.exit_status import OK
from registry.cli.moment_options import moment_options, moment_params
from registry.cli.output import json_option, print_json, print_lines
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient


@click.command("versions", cls=Verb, epilog="Exit status: 0 listed, 1 subject not found, 2 no answer.")
@click.argument("subject")
@click.option("--deleted", is_flag=True, help="Include soft-deleted versions.")
@moment_options
@json_option
@with_registry
def versions(
    registry: RegistryClient, *, subject: str, deleted: bool, at_offset: int | None, at_time: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """List the versions of SUBJECT, one per line."""
    moment = moment_params(at_offset, at_time)
    found = listed_versions(registry, subject, deleted=deleted, **moment)
    if as_json:
        print_json([{"version": number, "deleted": gone} for number, gone in found.items()])
    else:
        print_lines(f"{number} (soft-deleted)" if gone else str(number) for number, gone in found.items())
    return OK
