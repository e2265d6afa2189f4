"""Log lines: clients choose parts of them, so they must not steer terminals or forge further lines."""

from __future__ import annotations

import logging

import orjson
import pytest

from registry.base.observe.logs import ConsoleFormat, JsonFormat

CONTROLS = [chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029)]


def record(message: str, error: Exception | None = None) -> logging.LogRecord:
    trace = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("registry", logging.INFO, __file__, 1, "%s", (message,), trace)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: f"{ord(control):04x}")
def test_no_control_character_reaches_a_log_line(control: str) -> None:
    for form in (ConsoleFormat("node"), JsonFormat("node")):
        line = form.format(record(f"before{control}after"))
        assert control not in line
        assert line.isprintable()


def test_controls_are_reported_in_json_and_escaped_for_people() -> None:
    said = "\x1b[31m\x9b31m\n"
    assert orjson.loads(JsonFormat("node").format(record(said)))["message"] == said
    assert ConsoleFormat("node").format(record(said)).endswith(r"\u001b[31m\u009b31m\n")


def test_a_trace_keeps_its_lines_and_nothing_else_that_steers() -> None:
    text = ConsoleFormat("node").format(record("failed", ValueError("\x1b[2J\r\x9b")))
    assert text.count("\n") == 1
    assert not set(text) & (set(CONTROLS) - {"\n", "\t"})
