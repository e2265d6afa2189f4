"""Command-line arguments of ``registrar snapshot …``; the commands themselves are imported when run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from registry.config.loading import Loaded

Run = Callable[[Loaded, dict[str, Any]], int]
Add = Callable[..., argparse.ArgumentParser]

GROUPS = ("snapshots", "where", "cluster", "security", "encoder", "storage")
SNAPSHOT = "its id as shown by registrar snapshot list, or latest"


def add_commands(commands: Any, add: Add) -> None:
    """Add the commands to ``commands``, each by ``add``: parent, name, what runs it, what it does, groups."""
    does = "Build, check, restore and compare snapshots: nodes start from them, and they are backups."
    parser = commands.add_parser("snapshot", help=does, description=does)
    within = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, does: str) -> argparse.ArgumentParser:
        return add(within, name, partial(_run, name), does, GROUPS)

    _add_build(command)
    _add_list(command)
    verify = command("verify", "Check every hash, key and row of a snapshot. No node has to run.")
    _name_snapshot(verify)
    _add_restore(command)
    _add_diff(command)
    _add_export(command)


def _add_restore(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    restore = command(
        "restore",
        "Restore a snapshot into an empty topic, or into an empty log in the data folder: subjects, "
        "versions, ids, deletions, configs and modes as they were. If interrupted, run it again to resume.",
    )
    _name_snapshot(restore)
    restore.add_argument(
        "--dry-run", action="store_true", help="report what would be done without writing anything"
    )


def _add_diff(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    diff = command(
        "diff",
        "Compare two snapshots or running registries: versions, soft deletions, configs and modes. "
        "Exit status: 0 identical, 1 different, 2 comparison failed.",
    )
    for name, which in (("before", "old"), ("after", "new")):
        diff.add_argument(name, metavar=which.upper(), help=f"the {which} one: {SNAPSHOT}, or a URL")
    diff.add_argument("--json", action="store_true", help="print a JSON array, one object per line")


def _add_export(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    export = command("export", "Export a snapshot as plain files.")
    _name_snapshot(export)
    export.add_argument(
        "--format", choices=("files", "jsonl"), default="files", help="a folder of files, or JSON lines"
    )
    export.add_argument(
        "--output",
        metavar="PATH",
        required=True,
        help="the folder, or the file for the lines (-: standard output)",
    )


def _name_snapshot(command: argparse.ArgumentParser) -> None:
    command.add_argument("snapshot", nargs="?", default="latest", metavar="SNAPSHOT", help=SNAPSHOT)


def _run(command: str, loaded: Loaded, options: dict[str, Any]) -> int:
    from snapshots.commands import run  # noqa: PLC0415 - a node that serves needs none of it

    return run(command, loaded.settings, options)


def _add_build(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    build = command(
        "build",
        "Build a snapshot of the log as it is now. No node has to run, and running ones are not affected.",
    )
    build.add_argument(
        "--engine", choices=("local", "spark"), help="how to build it (default: snapshots_builder)"
    )
    build.add_argument(
        "--offset",
        type=int,
        metavar="N",
        help="build the state before record N; nodes never delete this snapshot",
    )
    build.add_argument(
        "--full", action="store_true", help="read the whole log instead of extending an earlier snapshot"
    )
    asked = build.add_mutually_exclusive_group()
    asked.add_argument(
        "--watch", action="store_true", help="build snapshots as nodes request them, until stopped"
    )
    asked.add_argument("--request", metavar="ID", help="build the requested snapshot with this id")


def _add_list(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    listed = command("list", "List existing and requested snapshots, newest first.")
    listed.add_argument("--json", action="store_true", help="print JSON")
