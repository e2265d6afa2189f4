"""Output of verbs: tables and colors for people, JSON for programs, and exit statuses.

Colors and lines are drawn only on a terminal, and ``NO_COLOR`` is obeyed. Elsewhere a table is aligned text
that is never cut.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TextIO

import click

# Done, and the answer is good.
OK = 0
# Done, and the answer is a bad verdict: refused, different, incompatible, not found, unhealthy.
REFUSED = 1
# Nothing can be said: wrong usage, unusable input, unreachable server.
FAILED = 2
# Nothing was refused, but a dry run found steps to take; only where --exit-code asks for it.
DRIFT = 3
# Ended by Ctrl-C, and by a reader of the output that went away, as shells report the signals.
INTERRUPTED = 130
BROKEN_PIPE = 141


class EndedVerb(click.ClickException):
    """An error that ends a verb with a message; ``code``: the registry's code, if it answered with one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Refusal(EndedVerb):
    """A bad verdict; the text says what was refused and what to do."""

    exit_code = REFUSED


class Failure(EndedVerb):
    """An error that leaves no verdict; the text says what happened, to what, and what to do."""

    exit_code = FAILED


# Wider than any table: nothing is wrapped or cut where no terminal limits the line.
_UNLIMITED = 1_000_000

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    """Print one JSON document, indented; characters that could steer the terminal are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def print_error(
    message: str, status: int, code: int | None = None, about: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Print the JSON document of an answer that there is none, on one line.

    ``status``: the exit status. ``code``: the registry's error code. ``about``: more members.
    """
    print(json.dumps({**about, "error": {"message": message, "status": status, "code": code}}))


def print_lines(lines: Iterable[str]) -> None:
    """Print one text a line; control characters in it, which could steer the terminal, are escaped."""
    for line in lines:
        print(printable(line))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], right: Collection[str] = ()
) -> None:
    """Print rows below a line of titles; the columns ``right`` are aligned to the right."""
    from rich import box  # noqa: PLC0415 - takes longer than most verbs
    from rich.table import Table  # noqa: PLC0415 - as above

    terminal = sys.stdout.isatty()
    table = Table(
        box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, show_edge=False, header_style="bold"
    )
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(printable(str(cell)) for cell in row))
    _console(sys.stdout).print(table)


def print_styled(text: str, style: str, file: TextIO | None = None) -> None:
    """Print a text in a style of rich, such as ``green`` or ``bold red``."""
    _console(file or sys.stdout).print(printable(text), style=style, soft_wrap=True)


@contextmanager
def progress(*, as_json: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show bars on standard error, for a ``with`` block, if it is a terminal and nobody wants JSON.

    Yield the function to call with the name of a step, and how much of how much is done.
    """
    from registry.base.observe.progress import Steps  # noqa: PLC0415 - as above

    with Steps(sys.stderr, quiet=True, bars=not as_json) as steps:
        yield steps


def note(text: str) -> None:
    """Print a remark to standard error, so that standard output holds only the answer."""
    print(f"registrar: {printable(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """Return a text with its control characters escaped, except line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _console(file: TextIO) -> Any:
    from rich.console import Console  # noqa: PLC0415 - as above

    width = None if file.isatty() else _UNLIMITED
    # By itself, rich would keep bold type; without a color system it writes no style at all.
    colors: Any = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    return Console(file=file, highlight=False, markup=False, emoji=False, width=width, **colors)
