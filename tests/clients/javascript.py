"""Calls into the JavaScript clients; js/bridge.js is the other end."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "js"


class JavaScriptError(Exception):
    """An error that a JavaScript client threw."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message"))
        self.name = error.get("name")
        self.status = error.get("status")
        self.code = error.get("code")


class JavaScript:
    """A JavaScript client in a separate process; calls look like methods."""

    def __init__(self, script: str, url: str, **config: Any) -> None:
        """Start it; ``config``: credentials, in the client's own words, and ``tls``."""
        assert (SCRIPTS / "node_modules").is_dir(), "make test installs the JavaScript clients"
        self.process = subprocess.Popen(
            ["node", SCRIPTS / script, url, json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __getattr__(self, call: str) -> Callable[..., Any]:
        return lambda *arguments: self._ask({"call": call, "arguments": arguments})

    def _ask(self, request: dict[str, Any]) -> Any:
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request, default=_to_json) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the script ended with exit code {process.wait()}"
        reply = json.loads(line, object_hook=_from_json)
        if "error" in reply:
            raise JavaScriptError(reply["error"])
        return reply["result"]

    def close(self) -> None:
        """The end of its input ends the script."""
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
