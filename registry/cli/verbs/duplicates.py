"""``registrar duplicates``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from registry.base.config.loading import Loaded
from registry.cli.exit_status import FAILED
from registry.cli.registry_flags import with_connection
from registry.cli.setting_flags import with_settings
from registry.cli.verb import Verb

from .snapshot import GROUPS, REGISTRY, SHOWN, SNAPSHOT, run_command

if TYPE_CHECKING:
    from registry.cli.client.connect import Connection

_DOES = f"""List schemas that are equal after normalisation.

SOURCE is a snapshot, by {SNAPSHOT}; or {REGISTRY}.
"""


@click.command(
    "duplicates",
    cls=Verb,
    help=_DOES,
    epilog="Exit status: 0 no duplicates, 1 duplicates found, 2 search failed.",
)
@click.argument("source", default="latest")
@click.option(
    "--subject-prefix",
    default=":*:",
    metavar="PREFIX",
    help="Search only subjects with this prefix; :*: (the default) for all contexts.",
)
@click.option("--deleted", is_flag=True, help="Include soft-deleted versions.")
@click.option("--json", is_flag=True, help="Print a JSON array, one object per group.")
@with_settings(*GROUPS, shown=SHOWN, refused=FAILED)
@with_connection(url=False)
def duplicates(connection: Connection, loaded: Loaded, *, source: str, **options: Any) -> int:
    """Run the verb."""
    from .opened_registry import opened  # noqa: PLC0415 - the help needs no client

    with opened(connection, source) as content:
        return run_command("duplicates", loaded, {**options, "source": content})
