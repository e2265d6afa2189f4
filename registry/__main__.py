"""The command line ``registrar``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import VERSION
from .commands import acl, schemas, snapshot, user
from .config.loading import CONFIG_VARIABLE, Loaded, Setting, SettingsError, load, table
from .config.setting_types import SWITCH

# A command: takes the settings and its own options, and returns the exit code.
Run = Callable[[Loaded, dict[str, Any]], int]

_ABOUT = """\
A schema registry that speaks Confluent's REST API, so that producers and consumers need no change.

  registrar serve                              serve on http://127.0.0.1:8081, data in ./data
  registrar serve --listen 0.0.0.0:8081        serve other machines (see --users for passwords)
  registrar serve --kafka HOST:PORT            run one of several nodes that share a Kafka topic
  registrar check-config --config FILE.toml    print the settings in force and where each comes from
  registrar log reseed --kafka HOST:PORT       write the contents of the store into a new, empty topic
  registrar user add NAME --users FILE         add a user; clients have to authenticate with --users FILE
  registrar snapshot build                     build a snapshot, to start nodes from or as a backup
  registrar schemas duplicates URL             list schemas that are equal once they are normalised
  registrar acl explain USER OP SUBJECT        print if a rule permits an operation, and which one

Every setting can be given in a TOML file, in the environment or on the command line; later ones win.
"""

_GROUPS = {
    "where": "general",
    "cluster": "cluster: several nodes on a Kafka topic",
    "security": "security between nodes and with Kafka",
    "tls": "TLS on the public port",
    "access": "authentication and authorisation",
    "rules": "rules for schemas",
    "encoder": "sensitive metadata",
    "limits": "limits",
    "storage": "storage",
    "snapshots": "snapshots",
    "answers": "responses and log lines",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in ``arguments`` (default: the process' own); return the exit code.

    It is 1 if settings or the start were rejected, 2 for an invalid command line.
    """
    given = vars(_parser().parse_args(arguments))
    run: Run = given.pop("run")
    file: Path | None = given.pop("config")
    names = {setting.name for setting in table()}
    flags = {name: word for name, word in given.items() if name in names and word is not None}
    options = {name: value for name, value in given.items() if name not in names}
    try:
        loaded = load(flags, os.environ, file)
    except SettingsError as error:
        for problem in error.problems:
            print(f"registrar: {problem}", file=sys.stderr)
        return 1
    return run(loaded, options)


def _serve(loaded: Loaded, options: dict[str, Any]) -> int:
    # Imported here because other commands need no server.
    from .supervisor import serve  # noqa: PLC0415

    return serve(loaded.settings)


def _check_config(loaded: Loaded, options: dict[str, Any]) -> int:
    from .commands.check_config import check_config  # noqa: PLC0415 - as above

    return check_config(loaded)


def _log_reseed(loaded: Loaded, options: dict[str, Any]) -> int:
    from .commands.log_reseed import log_reseed  # noqa: PLC0415 - as above

    return log_reseed(loaded.settings, dry_run=options["dry_run"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="registrar", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"registrar {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_command(commands, "serve", _serve, "Serve the registry until a signal stops it.")
    _add_command(
        commands,
        "check-config",
        _check_config,
        "Print the settings in force as TOML, each with its origin, and check certificates. "
        "Exit status: 1 if a setting or a certificate is not valid.",
    )
    does = "Maintain a log while no node uses it."
    log = commands.add_parser("log", help=does, description=does)
    reseed = _add_command(
        log.add_subparsers(metavar="COMMAND", required=True),
        "reseed",
        _log_reseed,
        "Write the state in the store of the data folder into an empty topic, with all ids unchanged, after "
        "the topic was lost. Stop the node of that folder first. If interrupted, run it again to resume.",
        ("where", "cluster", "security", "encoder"),
    )
    reseed.add_argument(
        "--dry-run", action="store_true", help="report what would be done without writing anything"
    )
    snapshot.add_commands(commands, _add_command)
    schemas.add_commands(commands, _add_command)
    user.add_commands(commands, _add_command)
    acl.add_commands(commands, _add_command)
    return parser


def _add_command(
    commands: Any, name: str, run: Run, does: str, groups: Sequence[str] = tuple(_GROUPS)
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=does, description=does, usage="%(prog)s [SETTING …]", allow_abbrev=False
    )
    command.set_defaults(run=run)
    _add_settings(command, groups)
    return command


def _add_settings(parser: argparse.ArgumentParser, shown: Sequence[str]) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE.toml",
        help=f"file with settings (environment: {CONFIG_VARIABLE})",
    )
    groups = {group: parser.add_argument_group(_GROUPS[group]) for group in shown}
    for setting in table():
        if setting.group not in groups:
            continue
        # A bare switch means "on"; the other settings take exactly one word.
        bare: dict[str, Any] = {"nargs": "?", "const": "true"} if setting.kind is SWITCH else {}
        groups[setting.group].add_argument(
            setting.flag, dest=setting.name, metavar="VALUE", help=_help(setting), **bare
        )


def _help(setting: Setting) -> str:
    words = (
        f"{setting.does}. Allowed: {setting.kind.allowed}. Default: {setting.default}. "
        f"Environment: {setting.variable}"
    )
    if setting.kind.secret:
        words += f". Other users can see arguments: prefer the environment or {setting.flag}-file"
    return words.replace("%", "%%")


if __name__ == "__main__":
    sys.exit(main())
