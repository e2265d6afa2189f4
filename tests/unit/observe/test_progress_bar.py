"""Progress of a command, for terminals and for files."""

from __future__ import annotations

import sys

import pytest

from registry.observe.progress_bar import ProgressBar


def test_a_line_for_each_tenth_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("writing", 50) as shown:
        for done in range(51):
            shown(done)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert (lines[0], lines[-1]) == ("writing: 5 of 50", "writing: 50 of 50")


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with ProgressBar("writing", 2) as shown:
        shown(1)
        shown(2)
    assert capsys.readouterr().out == (
        f"\rwriting [{'#' * 20}{'.' * 20}] 1 of 2\rwriting [{'#' * 40}] 2 of 2\n"
    )


def test_nothing_to_do_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("writing", 0) as shown:
        shown(0)
    assert capsys.readouterr().out == ""
