"""The words of ``registrar snapshot …``; what the commands do is imported when one of them is run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from registry.config import Loaded

Run = Callable[[Loaded, dict[str, Any]], int]
Add = Callable[..., argparse.ArgumentParser]

_GROUPS = ("snapshots", "where", "cluster", "security", "encoder", "storage")
_SNAPSHOT = "its id as registrar snapshot list shows it, or latest"


def add_commands(commands: Any, add: Add) -> None:
    """Add the commands to ``commands``, each by ``add``: parent, name, what runs it, what it does, groups."""
    does = "Snapshots of the registry: for nodes to start from, and as backups."
    parser = commands.add_parser("snapshot", help=does, description=does)
    within = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, does: str) -> argparse.ArgumentParser:
        return add(within, name, partial(_run, name), does, _GROUPS)

    _add_build(command)
    _add_list(command)
    verify = command("verify", "Hold a snapshot to its manifest: every hash, key and row. Needs no cluster.")
    _name_snapshot(verify)
    _add_restore(command)
    _add_diff(command)
    _add_export(command)


def _add_restore(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    restore = command(
        "restore",
        "Write the state of a snapshot into an empty topic, or an empty log in the data folder: subjects, "
        "versions, ids, deletions, configs, modes as they were. Interrupted, it goes on when run again.",
    )
    _name_snapshot(restore)
    restore.add_argument("--dry-run", action="store_true", help="say what would be done, and write nothing")


def _add_diff(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    diff = command(
        "diff",
        "Say how a snapshot, or a registry that runs, differs from another one: versions, soft deletions, "
        "configs, modes. Exit code: 0 when they are the same, 1 when not, 2 when that cannot be said.",
    )
    for name, which in (("before", "old"), ("after", "new")):
        diff.add_argument(name, metavar=which.upper(), help=f"the {which} one: {_SNAPSHOT}, or a URL")
    diff.add_argument("--json", action="store_true", help="as a JSON array, one object a line")


def _add_export(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    export = command("export", "Write a snapshot as files that people and other programs read.")
    _name_snapshot(export)
    export.add_argument(
        "--format", choices=("files", "jsonl"), default="files", help="a folder of files, or JSON lines"
    )
    export.add_argument(
        "--output",
        metavar="PATH",
        required=True,
        help="the folder, or the file with the lines (-: standard output)",
    )


def _name_snapshot(command: argparse.ArgumentParser) -> None:
    command.add_argument("snapshot", nargs="?", default="latest", metavar="SNAPSHOT", help=_SNAPSHOT)


def _run(command: str, loaded: Loaded, options: dict[str, Any]) -> int:
    from snapshots.commands import run  # noqa: PLC0415 - a node that serves needs none of it

    return run(command, loaded.settings, options)


def _add_build(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    build = command(
        "build",
        "Build a snapshot of the log as it is now. No node needs to run, and those that do go on.",
    )
    build.add_argument(
        "--engine", choices=("local", "spark"), help="what builds (default: snapshots_builder)"
    )
    build.add_argument(
        "--offset", type=int, metavar="N", help="as the log was before its record N; nodes never delete it"
    )
    build.add_argument("--full", action="store_true", help="from the log alone, upon no earlier snapshot")
    asked = build.add_mutually_exclusive_group()
    asked.add_argument("--watch", action="store_true", help="build what the nodes ask for, until stopped")
    asked.add_argument("--request", metavar="ID", help="build what the nodes asked for by this id")


def _add_list(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    listed = command("list", "List the snapshots that there are, and those asked for, the newest first.")
    listed.add_argument("--json", action="store_true", help="as JSON")
