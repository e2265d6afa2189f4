"""One node of a local cluster: ``registrar serve`` with a folder and an address of its own."""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .process import Process, free_port

ROOT = Path(__file__).parent.parent.parent
ANSWER_TIMEOUT_S = 5.0


class Node(Process):
    """A registry on a port of loopback with its data in ``folder``; ``flags`` are ``registrar serve``'s.

    :meth:`kill` and :meth:`freeze` reach all its processes, as if its host went.
    """

    def __init__(self, folder: Path, flags: Sequence[str], *, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}"
        self.data = folder / "data"
        # With which it is asked for its status.
        self.headers: dict[str, str] = {}
        self.context: ssl.SSLContext | None = None
        listen = () if "--listeners" in flags else ("--listen", self.address)
        command = [
            *(sys.executable, "-m", "registry", "serve", *listen),
            *("--data", str(self.data), *flags),
        ]
        super().__init__(f"the node on {self.port}", command, folder / "output.txt")
        own = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRAR_")}
        self.environment = own | {"PYTHONPATH": str(ROOT)}

    def ready(self) -> bool:
        """Return true if it reports that it is ready."""
        return self.ask("/health/ready")[0] == 200

    @property
    def role(self) -> str:
        """``primary``, ``secondary`` or ``following``; empty if it does not answer."""
        return str(self.status().get("role", ""))

    def status(self) -> dict[str, Any]:
        """Return what it reports at ``/node``; empty if it does not answer."""
        code, body = self.ask("/node")
        return json.loads(body) if code == 200 else {}

    def ask(self, path: str) -> tuple[int, bytes]:
        """Return status and body of the response to a GET; status 0 if there was none."""
        try:
            request = urllib.request.Request(self.url + path, headers=self.headers)
            with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S, context=self.context) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError:
            return 0, b""
