"""The command line: ``registrar serve`` and ``registrar check-config``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import VERSION
from .allowed import SWITCH
from .config import CONFIG_VARIABLE, Loaded, Setting, SettingsError, as_toml, load, table

_ABOUT = """\
A schema registry that speaks Confluent's REST API, so that producers and consumers need no change.

  registrar serve                              serve on http://127.0.0.1:8081, data in ./data
  registrar serve --listen 0.0.0.0:8081        serve other machines (no access control: mind the network)
  registrar check-config --config FILE.toml    say which settings hold and where each comes from

Every setting can stand in a TOML file, in the environment and on the command line; later ones win.
"""

_GROUPS = {
    "where": "where and how it runs",
    "cluster": "several nodes over a Kafka topic",
    "security": "security between nodes, and at Kafka",
    "rules": "rules for schemas",
    "limits": "limits",
    "storage": "storage",
    "answers": "answers and log lines",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in ``arguments`` (default: the process's own).

    The exit code is 0, 1 when settings or the start were refused, 2 when the command line makes no sense.
    """
    chosen = vars(_parser().parse_args(arguments))
    command, file = chosen.pop("command"), chosen.pop("config")
    try:
        loaded = load({name: word for name, word in chosen.items() if word is not None}, os.environ, file)
    except SettingsError as error:
        for problem in error.problems:
            print(f"registrar: {problem}", file=sys.stderr)
        return 1
    return _COMMANDS[command](loaded)


def _serve(loaded: Loaded) -> int:
    # Imported late: the other commands need no server, and say what is wrong without one.
    from .supervisor import serve  # noqa: PLC0415

    return serve(loaded.settings)


def _check_config(loaded: Loaded) -> int:
    print(as_toml(loaded), end="")
    return 0


_COMMANDS = {"serve": _serve, "check-config": _check_config}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="registrar", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"registrar {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, does in (
        ("serve", "Serve the registry until a signal stops it."),
        (
            "check-config",
            "Print the settings in force as TOML, each with its origin; exit 1 if one is wrong.",
        ),
    ):
        command = commands.add_parser(
            name, help=does, description=does, usage=f"registrar {name} [SETTING …]", allow_abbrev=False
        )
        _add_settings(command)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE.toml",
        help=f"file with settings (environment: {CONFIG_VARIABLE})",
    )
    groups = {group: parser.add_argument_group(title) for group, title in _GROUPS.items()}
    for setting in table():
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
    return words.replace("%", "%%")


if __name__ == "__main__":
    sys.exit(main())
