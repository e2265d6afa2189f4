"""Progress of a command: a bar on a terminal, otherwise a line for each tenth."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self, TextIO

_WIDTH = 40


class ProgressBar:
    """Shows how much of ``total`` is done, for a ``with`` block; call it with the number done."""

    def __init__(self, what: str, total: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._what = what
        self._total = max(1, total)
        self._is_terminal = self._stream.isatty()
        self._tenths = 0
        self._last = ""

    def __call__(self, done: int) -> None:
        """Show that ``done`` of the total is done."""
        part = min(1.0, done / self._total)
        if self._is_terminal:
            full = round(part * _WIDTH)
            self._draw(f"{self._what} [{'#' * full}{'.' * (_WIDTH - full)}] {done} of {self._total}")
        elif int(part * 10) > self._tenths:
            self._tenths = int(part * 10)
            print(f"{self._what}: {done} of {self._total}", file=self._stream, flush=True)

    def _draw(self, line: str) -> None:
        if line != self._last:
            print(f"\r{line}", end="", file=self._stream, flush=True)
            self._last = line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last:
            print(file=self._stream)


class Steps:
    """The progress of a command with several steps, for a ``with`` block: a bar or lines for each step."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._step = ""
        self._bar: ProgressBar | None = None

    def __call__(self, step: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` is done in this step; another name begins another step."""
        if self._bar is None or step != self._step:
            self._end()
            self._step, self._bar = step, ProgressBar(step, total, self._stream)
        self._bar(done)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
