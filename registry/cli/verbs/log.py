"""``registrar log …``: work on a log while no node uses it."""

from __future__ import annotations

import click

from registry.base.config.loading import Loaded
from registry.cli.setting_flags import with_settings
from registry.cli.verb import Verb, VerbGroup


@click.group(cls=VerbGroup)
def log() -> None:
    """Maintain a log that no node is using."""


@log.command("reseed", cls=Verb, epilog="Exit status: 0 done, 1 refused.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@click.option(
    "--store", default="", metavar="NAME", help="Another store of the folder, such as store-1.outdated."
)
@click.option("--empty", is_flag=True, help="Also publish the state of an empty store.")
@with_settings(
    *("where", "cluster", "security", "encoder"), shown=("data", "kafka", "topic", "replication_factor")
)
def reseed(loaded: Loaded, *, dry_run: bool, store: str, empty: bool) -> int:
    """Publish the state of the store in the data folder to an empty topic, keeping all ids.

    Use it after the topic was lost. Stop the node of that folder first. If there are several stores, name
    one. If interrupted, run it again to resume.
    """
    from .log_reseed import log_reseed  # noqa: PLC0415 - the help needs no log

    return log_reseed(loaded.settings, dry_run=dry_run, name=store, empty=empty)
