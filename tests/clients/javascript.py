"""Calls into the JavaScript clients; js/bridge.js is the other end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.bridge import Bridge

SCRIPTS = Path(__file__).parent / "js"


class JavaScript(Bridge):
    """A JavaScript client in a separate process; calls look like methods."""

    def __init__(self, script: str, url: str, **config: Any) -> None:
        """Start it; ``config``: credentials, in the client's own words, and ``tls``."""
        assert (SCRIPTS / "node_modules").is_dir(), "make test installs the JavaScript clients"
        super().__init__(["node", SCRIPTS / script, url, json.dumps(config)])

    def __getattr__(self, call: str) -> Callable[..., Any]:
        return lambda *arguments: self.ask(call, arguments)
