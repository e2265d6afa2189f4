"""Running the command line: every error becomes a message and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from .exit_status import BROKEN_PIPE, INTERRUPTED, OK
from .output import printable

NAME = "registrar"
# Set by the scripts that "registrar completion" prints.
COMPLETE_VARIABLE = f"_{NAME.upper()}_COMPLETE"


def run(program: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run the verb that ``arguments`` name (default: the process' own); return the exit status."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        return shell_complete(program, {}, NAME, COMPLETE_VARIABLE, instruction)
    words = sys.argv[1:] if arguments is None else [*arguments]
    try:
        with program.make_context(NAME, words) as context:
            status = program.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        status = ended.exit_code
    except click.ClickException as error:
        _show(error)
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except BrokenPipeError:
        # Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = BROKEN_PIPE
    return status if isinstance(status, int) else OK


def _show(error: click.ClickException) -> None:
    """Print one line that says what is wrong and, for a wrong usage, where the right one is."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return
    click.echo(f"{NAME}: {printable(error.format_message())}", err=True)
    if isinstance(error, click.UsageError) and context is not None:
        click.echo(f"{context.get_usage()}\nTry '{context.command_path} --help'.", err=True)
