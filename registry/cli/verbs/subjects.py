"""``registrar subjects`` and ``registrar versions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from registry.cli.exit_status import OK
from registry.cli.output import json_option, print_json, print_lines
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient


@click.command("subjects", cls=Verb, epilog="Exit status: 0 listed, 2 no answer.")
@click.argument("prefix", default="")
@click.option("--deleted", is_flag=True, help="Include subjects whose versions are all soft-deleted.")
@json_option
@with_registry
def subjects(registry: RegistryClient, *, prefix: str, deleted: bool, as_json: bool) -> int:
    """List the subjects of all contexts, or those with PREFIX, one per line.

    The prefix ":.staging:" lists those of a context.
    """
    found = registry.pages("/subjects", str, subjectPrefix=prefix or ":*:", deleted=deleted)
    if as_json:
        print_json(list(found))
    else:
        print_lines(found)
    return OK
