"""A real ZooKeeper server on a free port of loopback."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from . import jars
from .process import Process, free_port

JVM = (
    *("-Xms16m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-Dzookeeper.admin.enableServer=false", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024"),
)


class ZooKeeper(Process):
    """A single server; ``settings`` are those of ``zoo.cfg``. Sessions last 1 to 10 s."""

    def __init__(
        self, folder: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.settings = dict(settings or {})
        class_path = ":".join(str(jar) for jar in jars.zookeeper())
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        super().__init__(
            f"the ZooKeeper on {self.port}",
            [jars.java(), *JVM, "-cp", class_path, main, folder / "zoo.cfg"],
            folder / "output.txt",
        )

    @property
    def address(self) -> str:
        """``HOST:PORT`` for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it on the data in its folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "tickTime": "500",
            "dataDir": str(self.folder / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "*",
            **self.settings,
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.folder / "zoo.cfg").write_text(lines, encoding="utf-8")
        return super().start()

    def ready(self) -> bool:
        """Return true if it accepts clients. Its port opens earlier; a client then waits long."""
        return "Mode:" in self.ask(b"srvr")

    def ask(self, word: bytes) -> str:
        """Return the reply to one of its four-letter words; empty if it does not answer."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as asks,
        ):
            asks.sendall(word)
            return asks.makefile("rb").read().decode()
        return ""
