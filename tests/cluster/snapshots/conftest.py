"""A standalone cluster of Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from deploy.local import jars
from deploy.local.process import Process, free_port, listens
from tests.running import until

HOME = Path(pyspark.__file__).parent
JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Daemon(Process):
    """A process of Spark; ready when it listens on its port."""

    def __init__(self, folder: Path, kind: str, *arguments: str) -> None:
        self.port = free_port()
        command = [jars.java(), *JVM, "-cp", f"{HOME}/jars/*", f"org.apache.spark.deploy.{kind}"]
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(free_port())]
        super().__init__(kind, [*command, *where, *arguments], folder / f"{kind}.txt")
        # As set by Spark's own scripts.
        own = {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
        self.environment = os.environ | own

    def ready(self) -> bool:
        return listens(self.port)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """Start a cluster of one worker; return its URL."""
    with Daemon(tmp_path, "master.Master") as first:
        url = f"spark://127.0.0.1:{first.port}"
        work = str(tmp_path / "work")
        with Daemon(tmp_path, "worker.Worker", "--cores", "1", "--memory", "700m", "-d", work, url) as worker:
            until(lambda: "Successfully registered" in worker.output, 120, "the worker to be known")
            yield url
