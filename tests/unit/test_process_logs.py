"""The check that no process of a test logs an error that the test did not ask for."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from registry.base.observe.logs import ConsoleFormat, JsonFormat
from tests.support.process_logs import ProcessLogs, errors, unexpected


def line(formatter: logging.Formatter, level: int, text: str, *, traceback: bool = False) -> str:
    info = None
    try:
        int("the cause")
    except ValueError:
        info = sys.exc_info() if traceback else None
    return formatter.format(logging.LogRecord("registry", level, "", 0, text, (), info))


@pytest.mark.parametrize("formatter", [ConsoleFormat("node"), JsonFormat("node")])
def test_errors_are_found_in_either_format(formatter: logging.Formatter) -> None:
    lines = [
        "a banner",
        line(formatter, logging.INFO, "begun"),
        line(formatter, logging.ERROR, "broken", traceback=True),
        line(formatter, logging.WARNING, "an error is no warning"),
        line(formatter, logging.ERROR, "broken again"),
    ]
    first, second = errors("\n".join(lines))
    assert "broken" in first
    assert "the cause" in first
    assert "broken again" in second
    assert unexpected([first, second], ["the cause"]) == [second]


def test_a_traceback_is_an_error_whatever_its_level() -> None:
    lines = [line(ConsoleFormat("node"), logging.WARNING, "odd", traceback=True), "more"]
    assert len([*errors("\n".join(lines))]) == 1
    assert len([*errors("Traceback (most recent call last):\n  ...\nValueError: x")]) == 1


def test_each_line_is_read_once_when_it_is_whole(tmp_path: Path) -> None:
    path, logs = tmp_path / "output", ProcessLogs()
    whole = line(ConsoleFormat("node"), logging.ERROR, "broken")
    path.write_text(f"{whole}\n{whole[:40]}")
    assert logs.new_errors([path]) == [whole]
    assert logs.new_errors([path]) == []
    path.write_text(f"{whole}\n{whole}\n")
    assert logs.new_errors([path]) == [whole]
    assert logs.new_errors([tmp_path / "none"]) == []
