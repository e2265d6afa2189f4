"""Builds on a YARN cluster, a ResourceManager and a NodeManager, whose drivers run here or in the cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from deploy.local import jars
from deploy.local.broker import Broker
from deploy.local.process import Process, free_port
from registry.base.config.settings import Settings
from snapshots.spark.jars import Jars, connector_jars, pyspark_jars
from tests.cluster.snapshots.conftest import HOME, JVM
from tests.cluster.snapshots.test_spark_cluster import is_that_of_the_plain_fold
from tests.process.snapshots.test_spark import entry, numbered, produced
from tests.support.kafka_topics import make_topic
from tests.support.running import ROOT, until

pytestmark = pytest.mark.long

HADOOP = Jars(Path(__file__).parent, "yarn-3.4.1", jars.java, print)
SERVER = "org.apache.hadoop.yarn.server"
ADDRESSES = (
    *("resourcemanager", "resourcemanager.scheduler", "resourcemanager.resource-tracker"),
    *("resourcemanager.admin", "resourcemanager.webapp"),
    *("nodemanager", "nodemanager.localizer", "nodemanager.webapp"),
)
SPARK = {
    "spark.ui.enabled": "false",
    "spark.executor.instances": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    # Nothing is copied to the nodes that they have already.
    "spark.yarn.jars": f"local:{HOME}/jars/*",
}


class Daemon(Process):
    """A process of YARN; ready when it has said ``ready``."""

    def __init__(self, folder: Path, kind: str, ready: str) -> None:
        # The jars of the minicluster come first, with servers that PySpark's wheel does not contain.
        path = ":".join(map(str, [folder, *HADOOP.here(), f"{pyspark_jars()}/*"]))
        # Guice calls a protected method of ClassLoader.
        opened = ("--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Dlog4j2.level=INFO")
        command = [jars.java(), *JVM, *opened, "-cp", path, f"{SERVER}.{kind}"]
        super().__init__(kind, command, folder / f"{kind}.txt")
        self._ready = ready
        # Containers run the Java of the node that they are on.
        self.environment = os.environ | {"JAVA_HOME": str(Path(jars.java()).resolve().parents[1])}

    def ready(self) -> bool:
        return self._ready in self.output


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a cluster of one node; return the folder of its configuration."""
    folder = tmp_path_factory.mktemp("yarn")
    configure(folder)
    with (
        Daemon(folder, "resourcemanager.ResourceManager", "Transitioned to active state") as manager,
        Daemon(folder, "nodemanager.NodeManager", "Registered with ResourceManager"),
    ):
        until(lambda: "registered with capability" in manager.output, 60, "the node to be known")
        yield folder
    shutil.rmtree(folder / "local", ignore_errors=True)


def configure(folder: Path) -> None:
    """Write the configuration of a cluster whose file system is this machine's."""
    for name in ("cluster", "node", "static"):  # the servers want these folders, which the shaded jar misses
        (folder / "webapps" / name).mkdir(parents=True)
    write(folder / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": f"{folder}/tmp"})
    settings = {f"yarn.{name}.address": f"127.0.0.1:{free_port()}" for name in ADDRESSES}
    settings |= {
        "yarn.resourcemanager.hostname": "127.0.0.1",
        "yarn.resourcemanager.bind-host": "127.0.0.1",
        "yarn.resourcemanager.scheduler.class": f"{SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.bind-host": "127.0.0.1",
        "yarn.nodemanager.local-dirs": f"{folder}/local",
        "yarn.nodemanager.log-dirs": f"{folder}/logs",
        "yarn.nodemanager.resource.memory-mb": "4096",
        "yarn.nodemanager.resource.cpu-vcores": "4",
        "yarn.nodemanager.vmem-check-enabled": "false",
        # A nearly full disk makes a node unhealthy.
        "yarn.nodemanager.disk-health-checker.enable": "false",
    }
    write(folder / "yarn-site.xml", settings)


def write(file: Path, settings: Mapping[str, str]) -> None:
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>"]), encoding="utf-8")


@pytest.fixture
def built(tmp_path: Path, kafka: Broker) -> Settings:
    """Return the settings of a build of a topic of 300 versions."""
    topic = make_topic(kafka.address)
    produced(kafka.address, topic, numbered([entry(number) for number in range(300)]))
    return Settings(data=tmp_path / "data", kafka=kafka.address, topic=topic)


def python_without_this_project(folder: Path) -> Path:
    """Make an environment with all packages of this one but the project: it is a ``.pth`` file of its own."""
    venv.create(folder)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
    Path(packages, "packages.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    python = folder / "bin" / "python"
    imported = [str(python), "-c", "import numpy, registry"]
    failed = subprocess.run(imported, cwd=folder, capture_output=True, text=True, check=False).stderr
    assert "No module named 'registry'" in failed
    return python


def run(yarn: Path, command: list[str], environment: Mapping[str, str]) -> None:
    own = {"HADOOP_CONF_DIR": str(yarn), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | own | environment, capture_output=True, text=True, timeout=400,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def containers(yarn: Path) -> int:
    """Return how many containers have run so far."""
    return len(list((yarn / "logs").glob("application_*/container_*")))


def test_executors_get_the_project_from_a_driver_outside_the_cluster(
    tmp_path: Path, yarn: Path, built: Settings
) -> None:
    before = containers(yarn)
    conf = SPARK | {"spark.yarn.stagingDir": f"file://{tmp_path}/staging"}
    command = [
        *(sys.executable, "-m", "registry", "snapshot", "build", "--engine", "spark"),
        *("--kafka", built.kafka, "--topic", built.topic, "--data", str(built.data)),
        *("--snapshots-spark-master", "yarn"),
        *("--snapshots-spark-conf", " ".join(f"{name}={value}" for name, value in conf.items())),
    ]
    run(yarn, command, {"PYSPARK_PYTHON": str(python_without_this_project(tmp_path / "python"))})
    is_that_of_the_plain_fold(tmp_path, built)
    assert containers(yarn) >= before + 2, "YARN has run an application master and an executor"


def test_the_driver_can_run_in_the_cluster(tmp_path: Path, yarn: Path, built: Settings) -> None:
    before = containers(yarn)
    conf = SPARK | {
        "spark.yarn.stagingDir": f"file://{tmp_path}/staging",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.yarn.appMasterEnv.PYTHONPATH": str(ROOT),
    }
    command = [
        *(str(HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster"),
        *("--jars", ",".join(map(str, connector_jars()))),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        str(ROOT / "snapshots" / "spark" / "submit.py"),
        *("--kafka", built.kafka, "--topic", built.topic, "--data", "work"),
        *("--snapshots", built.snapshots_location),
    ]
    run(yarn, command, {})
    is_that_of_the_plain_fold(tmp_path, built)
    assert containers(yarn) >= before + 2, "YARN has run a driver and an executor"
