"""A standalone cluster of Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from deploy.local import jars
from deploy.local.process import Process, free_port, listens
from tests.support.running import until

HOME = Path(pyspark.__file__).parent
JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Daemon(Process):
    """A process of Spark; ready when it listens on its port."""

    def __init__(self, folder: Path, kind: str, *arguments: str, host: str = "127.0.0.1") -> None:
        self.port, self._host = free_port(), host
        command = [jars.java(), *JVM, "-cp", f"{HOME}/jars/*", f"org.apache.spark.deploy.{kind}"]
        where = ["--host", host, "--port", str(self.port), "--webui-port", str(free_port())]
        super().__init__(kind, [*command, *where, *arguments], folder / f"{kind}.txt")
        # As set by Spark's own scripts.
        own = {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": host}
        self.environment = os.environ | own

    def ready(self) -> bool:
        return listens(self.port, self._host)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """Start a cluster of one worker; return its URL."""
    with running(tmp_path, 1) as (url, _):
        yield url


@contextmanager
def running(folder: Path, count: int, local: Path | None = None) -> Iterator[tuple[str, list[Daemon]]]:
    """Run a master and some workers for a ``with`` block; yield the master's URL and the workers.

    Each worker is a host of its own, because Spark speculates on other hosts only. Executors keep their
    temporary files in ``local``.
    """
    with ExitStack() as stack:
        first = stack.enter_context(Daemon(folder, "master.Master"))
        url = f"spark://127.0.0.1:{first.port}"
        workers = []
        for number in range(count):
            own = folder / f"worker-{number}" if number else folder
            flags = ("--cores", "1", "--memory", "700m", "-d", str(own / "work"), url)
            host = f"127.0.0.{number + 1}"
            worker = Daemon(own, "worker.Worker", *flags, host=host)
            if local:
                worker.environment["SPARK_LOCAL_DIRS"] = str(local)
            workers.append(stack.enter_context(worker))
        known = "Successfully registered"
        until(lambda: all(known in each.output for each in workers), 120, "the workers to be known")
        yield url, workers
