"""Command-line arguments of ``registrar schemas …``; the commands themselves are imported when run."""

from __future__ import annotations

from typing import Any

from registry.config.loading import Loaded

from .snapshot import GROUPS, SNAPSHOT, Add


def add_commands(commands: Any, add: Add) -> None:
    """Add the commands to ``commands`` by ``add``; see :func:`.snapshot.add_commands`."""
    does = "Examine the schemas of a snapshot or of a running registry."
    parser = commands.add_parser("schemas", help=does, description=does)
    duplicates = add(
        parser.add_subparsers(metavar="COMMAND", required=True),
        "duplicates",
        _duplicates,
        "List schemas that are equal once they are normalised. Exit status: 0 no duplicates, 1 duplicates "
        "found, 2 search failed.",
        GROUPS,
    )
    duplicates.add_argument(
        "source",
        nargs="?",
        default="latest",
        metavar="SOURCE",
        help=f"a snapshot, by {SNAPSHOT}; or the URL of a running registry",
    )
    duplicates.add_argument(
        "--subject-prefix",
        default=":*:",
        metavar="PREFIX",
        help="search only subjects that begin with this; :*: (the default) for all contexts",
    )
    duplicates.add_argument("--deleted", action="store_true", help="include soft-deleted versions")
    duplicates.add_argument("--json", action="store_true", help="print a JSON array, one object per group")


def _duplicates(loaded: Loaded, options: dict[str, Any]) -> int:
    from snapshots.commands import run  # noqa: PLC0415 - a node that serves needs none of it

    return run("duplicates", loaded.settings, options)
