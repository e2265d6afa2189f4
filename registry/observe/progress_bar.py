"""How far a command is: a bar where somebody watches, else a line for each tenth."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

_WIDTH = 40


class Shown:
    """Shows ``what`` and how much of ``total`` is done, for a ``with`` block; called with what is done."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = max(1, total)
        self._bar = sys.stdout.isatty()
        self._tenths = 0
        self._last = ""

    def __call__(self, done: int) -> None:
        """So much is done."""
        part = min(1.0, done / self._total)
        if self._bar:
            full = round(part * _WIDTH)
            self._draw(f"{self._what} [{'#' * full}{'.' * (_WIDTH - full)}] {done} of {self._total}")
        elif int(part * 10) > self._tenths:
            self._tenths = int(part * 10)
            print(f"{self._what}: {done} of {self._total}", flush=True)

    def _draw(self, line: str) -> None:
        if line != self._last:
            print(f"\r{line}", end="", flush=True)
            self._last = line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last:
            print()
