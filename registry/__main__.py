"""The command line ``registrar``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from registry.cli import program
from registry.cli.verb import LazyVerbs
from registry.cli.verbs import VERBS

from . import VERSION

_ABOUT = """\
A schema registry that speaks Confluent's REST API, so that producers and consumers need no change.

Start one with "registrar serve" (http://127.0.0.1:8081, data in ./data); see its --help for more.
"""
_EXIT = """\
Exit status: 0 success, 1 refused or a negative verdict, 2 wrong usage or no verdict possible.
Completion: eval "$(registrar completion bash)", or zsh or fish.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb in ``arguments`` (default: the process' own); return the exit status."""
    commands = LazyVerbs(VERBS, help=_ABOUT, epilog=_EXIT)
    click.version_option(VERSION, message="%(prog)s %(version)s")(commands)
    return program.run(commands, arguments)


if __name__ == "__main__":
    sys.exit(main())
