"""Progress of a command, for terminals and for files."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from io import StringIO
from typing import TextIO

import pytest

from registry.base.observe.progress import Steps


class Terminal:
    """A terminal, and what was written to it."""

    def __init__(self) -> None:
        self._other, this = pty.openpty()
        self.stream: TextIO = os.fdopen(this, "w")

    def shown(self) -> str:
        self.stream.close()
        found = b""
        try:
            while part := os.read(self._other, 10_000):
                found += part
        except OSError:  # the terminal's end
            pass
        return found.decode()

    def close(self) -> None:
        os.close(self._other)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    found = Terminal()
    yield found
    found.close()


def test_a_line_for_each_tenth_where_nobody_watches() -> None:
    output = StringIO()
    with Steps(output) as steps:
        for done in range(51):
            steps("writing", done, 50)
        steps("checking", 1, 1)
    lines = output.getvalue().splitlines()
    assert len(lines) == 11
    assert (lines[0], lines[9:]) == ("writing: 5 of 50", ["writing: 50 of 50", "checking: 1 of 1"])


def test_nothing_where_nobody_reads_it() -> None:
    output = StringIO()
    with Steps(output, quiet=True) as steps:
        steps("writing", 1, 1)
    assert output.getvalue() == ""


@pytest.mark.parametrize("quiet", [True, False])
def test_a_bar_for_each_step_on_a_terminal(terminal: Terminal, quiet: bool) -> None:
    with Steps(terminal.stream, quiet=quiet) as steps:
        steps("writing [red]", 1, 2)
        steps("writing [red]", 2, 2)
        steps("checking", 3, 4)
    shown = terminal.shown()
    assert "writing [red]" in shown
    assert "2/2" in shown
    assert "checking" in shown
    assert "3/4" in shown


def test_no_bars_if_nobody_wants_them(terminal: Terminal) -> None:
    with Steps(terminal.stream, quiet=True, bars=False) as steps:
        steps("writing", 1, 1)
    assert terminal.shown() == ""


def test_nothing_to_do_shows_nothing() -> None:
    output = StringIO()
    with Steps(output) as steps:
        steps("writing", 0, 0)
    assert output.getvalue() == ""
