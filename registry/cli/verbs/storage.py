"""``registrar snapshot …``, ``duplicates`` and ``log …``; what the verbs do is imported when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from registry.base.config.loading import Loaded
from registry.cli.output import FAILED, REFUSED, Failure, Refusal
from registry.cli.registry_flags import with_connection
from registry.cli.setting_flags import with_same_settings, with_settings
from registry.cli.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from registry.cli.client.connect import Connection


GROUPS = ("snapshots", "where", "cluster", "security", "encoder", "storage")
SHOWN = ("snapshots", "data", "kafka", "topic")
SNAPSHOT = "its id as shown by registrar snapshot list, or latest"
REGISTRY = "the addresses URL,URL… of a running registry"
_STATUS = "Exit status: 0 done, 1 failed."

_Run = Callable[..., int]


@click.group(cls=VerbGroup)
def snapshot() -> None:
    """Build, check, restore and compare snapshots, from which nodes start and which serve as backups."""


def _verb(status: str = _STATUS, refused: int = REFUSED) -> Callable[[_Run], click.Command]:
    """Make a verb of a function that needs the settings of snapshots."""

    def decorate(run: _Run) -> click.Command:
        name = run.__name__.strip("_")
        return snapshot.command(name, cls=Verb, epilog=status)(
            with_settings(*GROUPS, shown=SHOWN, refused=refused)(run)
        )

    return decorate


def _snapshot_argument(run: _Run) -> _Run:
    return click.argument("snapshot", default="latest", help=f"{SNAPSHOT} (the default).".capitalize())(run)


def run_command(command: str, loaded: Loaded, options: dict[str, Any]) -> int:
    """Run a command of the package ``snapshots``; return its exit status."""
    from snapshots.backup.verbs import CommandFailed  # noqa: PLC0415 - the help needs no snapshots
    from snapshots.commands import run  # noqa: PLC0415 - as above

    try:
        return run(command, loaded.settings, options)
    except CommandFailed as error:
        raise (Failure if error.status == FAILED else Refusal)(str(error)) from None


@_verb()
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    help="How to build it: auto is spark where it is installed, else local [default: snapshots_builder].",
)
@click.option(
    "--offset",
    type=int,
    metavar="N",
    help="Build the state before record N; nodes never delete this snapshot.",
)
@click.option("--full", is_flag=True, help="Read the whole log instead of extending an earlier snapshot.")
@click.option("--watch", is_flag=True, help="Build snapshots on request of the nodes, until stopped.")
@click.option("--request", metavar="ID", help="Build the requested snapshot with this id.")
def _build(loaded: Loaded, **options: Any) -> int:
    """Build a snapshot of the current log. No node has to run, and running ones are not affected."""
    if options["watch"] and options["request"]:
        raise click.UsageError("give only one of --watch and --request", click.get_current_context())
    return run_command("build", loaded, options)


@_verb()
@click.option("--json", is_flag=True, help="Print JSON.")
def _list(loaded: Loaded, **options: Any) -> int:
    """List existing and requested snapshots, newest first."""
    return run_command("list", loaded, options)


@_verb("Exit status: 0 sound, 1 damaged or not readable.")
@_snapshot_argument
def _verify(loaded: Loaded, **options: Any) -> int:
    """Check every hash, key and row of a snapshot. No node has to run."""
    return run_command("verify", loaded, options)


@_verb()
@_snapshot_argument
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@click.option("--empty", is_flag=True, help="Also restore an empty snapshot.")
def _restore(loaded: Loaded, **options: Any) -> int:
    """Restore a snapshot into an empty topic, or into an empty log in the data folder.

    Subjects, versions, ids, deletions, configs and modes will be as they were. If interrupted, run it
    again to resume.
    """
    again = with_same_settings("")
    return run_command("restore", loaded, {**options, "settings": again})


@_verb("Exit status: 0 identical, 1 different, 2 comparison failed.", FAILED)
@click.argument("before", metavar="OLD", help=f"The old one: {SNAPSHOT}; or {REGISTRY}.")
@click.argument("after", metavar="NEW", help=f"The new one: {SNAPSHOT}; or {REGISTRY}.")
@click.option("--json", is_flag=True, help="Print a JSON array, one object per line.")
@with_connection(url=False)
def _diff(connection: Connection, loaded: Loaded, *, before: str, after: str, **options: Any) -> int:
    """Compare two snapshots or running registries: versions, soft deletions, configs and modes.

    Credentials of two registries: REGISTRAR_USER_FROM, REGISTRAR_USER_TO or REGISTRAR_TOKEN_…, or ~/.netrc.
    """
    from registry.cli.client.addresses import FROM, TO  # noqa: PLC0415 - the help needs no client

    from .folder_source import is_url, open_source  # noqa: PLC0415

    sides = (FROM, TO) if is_url(before) and is_url(after) else ("", "")
    with open_source(connection, before, sides[0]) as old, open_source(connection, after, sides[1]) as new:
        return run_command("diff", loaded, {**options, "before": old, "after": new})


@_verb()
@_snapshot_argument
@click.option(
    "--format",
    type=click.Choice(["files", "jsonl"]),
    default="files",
    help="A folder of files, or JSON lines [default: files].",
)
@click.option(
    "--output",
    metavar="PATH",
    required=True,
    help="The folder, or the file for the lines (-: standard output).",
)
def _export(loaded: Loaded, **options: Any) -> int:
    """Export a snapshot as plain files."""
    return run_command("export", loaded, options)


_DOES = f"""List schemas that are equal after normalization.

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
    from .folder_source import open_source  # noqa: PLC0415 - the help needs no client

    with open_source(connection, source) as content:
        return run_command("duplicates", loaded, {**options, "source": content})


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
