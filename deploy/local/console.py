"""The console of a running cluster: says which process ended, and takes commands that end and start them."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping

from .node import Node
from .process import Process

_LOOK_S = 0.5
HELP = """\
Commands: status | stop NAME | kill NAME | freeze NAME | thaw NAME | start NAME | quit   (NAME: {})"""


class Console:
    """Watches ``parts`` by name, and obeys the lines of standard input; ``say`` prints a line."""

    def __init__(self, parts: Mapping[str, Process], say: Callable[[str], None]) -> None:
        self._parts = parts
        self._say = say
        self._ended: set[str] = set()
        self._frozen: set[str] = set()  # they answer nothing, so they are not asked
        self._primary = self._find_primary()
        self._typed = b""
        self._input: int | None = sys.stdin.fileno() if sys.stdin is not None else None

    def run(self) -> None:
        """Watch and obey until "quit"; Ctrl-C is the caller's."""
        self._say(HELP.format(", ".join(self._parts)))
        while True:
            for line in self._lines():
                if line == "quit":
                    return
                self._obey(line)
            self._look()

    def _lines(self) -> list[str]:
        """Return the lines that were typed in the last moment; after the end of the input, none come."""
        if self._input is None:
            time.sleep(_LOOK_S)
            return []
        if not select.select([self._input], [], [], _LOOK_S)[0]:
            return []
        typed = os.read(self._input, 4096)
        if not typed:
            self._input = None
        *lines, self._typed = (self._typed + typed).split(b"\n")
        return [line.decode(errors="replace").strip() for line in lines]

    def _obey(self, line: str) -> None:
        verb, _, name = line.partition(" ")
        part = self._parts.get(name.strip())
        if verb == "status":
            for each in self._parts:
                self._say(f"  {self._state(each)}")
        elif part is None or verb not in {"stop", "kill", "freeze", "thaw", "start"}:
            if line:
                self._say(HELP.format(", ".join(self._parts)))
        elif verb == "start":
            self._start(name.strip(), part)
        elif not part.running:
            self._say(f"{name} does not run; start {name} starts it")
        else:
            getattr(part, verb)()
            (self._frozen.add if verb == "freeze" else self._frozen.discard)(name.strip())
            self._say(f"{name}: {verb} done")

    def _start(self, name: str, part: Process) -> None:
        if part.running:
            self._say(f"{name} runs already")
            return
        part.stop()
        try:
            part.start().wait()
        except AssertionError as error:
            self._say(str(error))
            return
        self._ended.discard(name)
        self._say(f"{self._state(name)} again")

    def _look(self) -> None:
        """Say what has ended since the last look, and who writes now."""
        for name, part in self._parts.items():
            if name not in self._ended and not part.running:
                self._ended.add(name)
                self._say(f"{name} has ended ({_how(part)}). To bring it back, type: start {name}")
        primary = self._find_primary()
        if primary not in ("", self._primary):
            self._primary = primary
            self._say(f"{primary} is the primary now")

    def _find_primary(self) -> str:
        asked = (name for name, part in self._parts.items() if part.running and name not in self._frozen)
        return next((name for name in asked if self._role(name) == "primary"), "")

    def _role(self, name: str) -> str:
        part = self._parts[name]
        return part.role if isinstance(part, Node) else ""

    def _state(self, name: str) -> str:
        part = self._parts[name]
        if not part.running:
            return f"{name} has ended ({_how(part)}); start {name} brings it back"
        if name in self._frozen:
            return f"{name} is frozen (process {part.pid}); thaw {name} resumes it"
        role = f", {self._role(name) or 'not answering'}" if isinstance(part, Node) else ""
        return f"{name} runs (process {part.pid}{role})"


def _how(part: Process) -> str:
    code = part.process.returncode if part.process else 0
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
