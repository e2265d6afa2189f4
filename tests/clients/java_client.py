"""Calls into Confluent's Java client; java/Bridge.java is the other end. To fetch ahead:
``python -m tests.clients.java_client``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deploy.local.jars import java
from snapshots.spark.jars import Jars, NotAvailable
from tests.clients.bridge import Bridge

SOURCES = Path(__file__).parent / "java"
# For a program that runs for seconds.
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


def client_jars() -> list[Path]:
    """Return the client's jars, fetched if they are missing. Raises :class:`NotAvailable`."""

    def log(text: str) -> None:
        print(text, "(some 20 MB)", file=sys.stderr, flush=True)

    return Jars(SOURCES, "confluent-java", java, log).here()


class JavaClient:
    """One client of a :class:`Java`; calls look like methods."""

    def __init__(self, process: Java, number: int) -> None:
        self._process, self._number = process, number

    def __getattr__(self, call: str) -> Callable[..., Any]:
        return lambda *arguments: self._process.ask(call, arguments, client=self._number)


class Java(Bridge):
    """A Java process with any number of clients."""

    def __init__(self) -> None:
        class_path = os.pathsep.join(map(str, client_jars()))
        super().__init__([java(), *_JVM, "-cp", class_path, SOURCES / "Bridge.java"])

    def open(self, url: str, settings: Mapping[str, str] | None = None) -> JavaClient:
        """Return a new client, which remembers no schemas; ``settings`` are in the client's own words."""
        return JavaClient(self, self.ask("open", [url, dict(settings or {})]))


if __name__ == "__main__":
    try:
        client_jars()
    except NotAvailable as missing:
        sys.exit(str(missing))
