"""Calls into clients of other languages, each in a process: JSON requests and replies, one a line."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from collections.abc import Sequence
from typing import Any


class BridgeError(Exception):
    """An error that the client in the other process threw."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message"))
        self.name = error.get("name")
        self.status = error.get("status")
        self.code = error.get("code")


class Bridge:
    """A process that calls a client. Bytes travel as ``{"base64": text}``."""

    def __init__(self, command: Sequence[object]) -> None:
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, call: str, arguments: Sequence[Any], **more: Any) -> Any:
        """Return the result of a call. Raises :class:`BridgeError`."""
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"call": call, "arguments": arguments} | more
        process.stdin.write(json.dumps(request, default=_to_json) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the process ended with exit code {process.wait()}"
        reply = json.loads(line, object_hook=_from_json)
        if "error" in reply:
            raise BridgeError(reply["error"])
        return reply["result"]

    def close(self) -> None:
        """End the process's input, which ends the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def _to_json(value: object) -> object:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(value)


def _from_json(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["base64"]) if value.keys() == {"base64"} else value
