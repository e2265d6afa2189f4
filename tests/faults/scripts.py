"""Clients that know every answer beforehand, so that a command that is lost or executed twice is noticed at
once.

Each runs one script repeatedly, each time on a new subject: registrations, config, mode and deletions, none
of which would give the same answer twice.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from .load import Line, schema

# Versions of each subject.
_COUNT = 3
# Of a client between two subjects: more of them in the same time would show nothing else.
_PAUSE_S = 0.05


class Script:
    """One client on one node; ``finished`` holds the subjects whose whole script was answered."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.finished: list[str] = []
        self.trouble = ""
        self._line = Line(port)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"script {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Stop after the current subject."""
        self._stopping.set()
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"script {self.name} hangs"
        self._line.close()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(_PAUSE_S) and not self.trouble:
            number += 1
            subject = f"{self.name}-{number}"
            if all(self._step(*each) for each in steps(subject)):
                self.finished.append(subject)

    def _step(self, method: str, path: str, body: Any, expected: Any) -> bool:
        answer, _ = self._line.ask(method, path, body)
        said = answer.get("answer")
        if isinstance(said, dict) and "schema" in said:
            said = said["version"]
        if answer.get("status") != 200 or said != expected:
            self.trouble = f"{method} {path}: {answer.get('status')} {said}, not {expected}"
        return not self.trouble


def steps(subject: str) -> list[tuple[str, str, Any, Any]]:
    """Yield method, path, body and the only right answer (of a registration, its version), in order."""
    versions, config, mode = f"/subjects/{subject}/versions", f"/config/{subject}", f"/mode/{subject}"
    numbers = list(range(1, _COUNT + 1))
    text = subject.replace("-", "_")
    return [
        *(("POST", versions, {"schema": schema(text, each)}, each) for each in numbers),
        ("PUT", config, {"compatibility": "FULL"}, {"compatibility": "FULL"}),
        ("DELETE", config, None, {"compatibilityLevel": "FULL"}),
        ("PUT", mode, {"mode": "READWRITE"}, {"mode": "READWRITE"}),
        ("DELETE", mode, None, {"mode": "READWRITE"}),
        ("DELETE", f"{versions}/latest", None, _COUNT),
        ("DELETE", f"{versions}/latest", None, _COUNT - 1),
        ("DELETE", f"/subjects/{subject}", None, numbers[:-2]),
        ("DELETE", f"/subjects/{subject}?permanent=true", None, numbers),
    ]


def troubles(scripts: Sequence[Script]) -> list[str]:
    """Return the answers that differ from the right ones."""
    return [each.trouble for each in scripts if each.trouble]
