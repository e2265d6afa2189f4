"""Running the command line, where every error becomes a message and an exit status, and its completion."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click
from click.shell_completion import get_completion_class, shell_complete

from .output import BROKEN_PIPE, FAILED, INTERRUPTED, OK, print_error, printable
from .verb import Verb

NAME = "registrar"
# Set by the scripts that "registrar completion" prints.
COMPLETE_VARIABLE = f"_{NAME.upper()}_COMPLETE"
_ESCAPED = "registrar-escaped"


def run(program: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run the verb that ``arguments`` name (default: the process' own); return the exit status."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        return shell_complete(program, {}, NAME, COMPLETE_VARIABLE, instruction)
    words = sys.argv[1:] if arguments is None else [*arguments]
    _prepare_streams()
    try:
        with program.make_context(NAME, words) as context:
            status = program.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        status = ended.exit_code
    except click.ClickException as error:
        _show(error)
        if wants_json(words):
            print_error(error.message, error.exit_code, getattr(error, "code", None))
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        status = BROKEN_PIPE
    except OSError as error:  # such as a full disk behind standard output
        _drop_output()
        click.echo(f"{NAME}: {printable(str(error))}", err=True)
        status = FAILED
    return status if isinstance(status, int) else OK


def wants_json(words: Sequence[str]) -> bool:
    """Return true if the words of a verb include ``--json``, also where they could not be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _prepare_streams() -> None:
    """Make the standard streams exist, and the output take every character."""
    if sys.stdin is None:  # closed by the shell; the next file or socket would get its number
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - open until the end
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as above
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as above
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error(_ESCAPED, _escape_unencodable)
        sys.stdout.reconfigure(errors=_ESCAPED)


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Replace what a terminal's encoding lacks by escapes of JSON, which a schema may hold as well."""
    assert isinstance(error, UnicodeEncodeError)
    utf_16 = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (utf_16[at : at + 2].hex() for at in range(0, len(utf_16), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end


def _drop_output() -> None:
    """Throw away what could not be written: Python would complain once more when it closes the stream."""
    with suppress(io.UnsupportedOperation):  # a stream of a test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(error: click.ClickException) -> None:
    """Print what is wrong, usually one line, and for a wrong usage where the right one is."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return
    for line in printable(error.format_message()).splitlines() or [""]:
        click.echo(f"{NAME}: {line}", err=True)
    if isinstance(error, click.UsageError) and context is not None:
        click.echo(f"{context.get_usage()}\nTry '{context.command_path} --help'.", err=True)


_SHELLS = {
    "bash": 'eval "$(registrar completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(registrar completion zsh)"       # in ~/.zshrc',
    "fish": "registrar completion fish | source       # in ~/.config/fish/config.fish",
}
_INSTALL = "\b\nTo install it:\n" + "".join(f"  {line}\n" for line in _SHELLS.values())


@click.command(cls=Verb, epilog=_INSTALL)
@click.argument("shell", type=click.Choice(list(_SHELLS)), metavar="SHELL")
def completion(shell: str) -> int:
    """Print the completion script for SHELL: bash, zsh or fish."""
    kind = get_completion_class(shell)
    assert kind is not None
    program = click.get_current_context().find_root().command
    print(kind(program, {}, NAME, COMPLETE_VARIABLE).source())
    return OK
