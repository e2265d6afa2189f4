"""Kafka Connect with Confluent's converter, and Debezium, as docs/integrations.md configures them."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from deploy.local.broker import Broker
from deploy.local.jars import java
from deploy.local.process import Process, free_port, listens
from tests.clients import integrations
from tests.clients.integrations import BROKER, JVM, REGISTRY, WAYS, class_path, tool_jars, write
from tests.clients.secured import WRITER, Secured
from tests.support.running import PATIENT, ROOT, Served, until

pytestmark = pytest.mark.long
# Connect finds plug-ins by these files alone, so that it does not load each of 60,000 classes first.
_SERVICES = "META-INF/services/org.apache.kafka.connect.storage.Converter"
_CONVERTER = "io.confluent.connect.avro.AvroConverter\n"
_URL = "value.converter.schema.registry.url="
# For a worker on a busy machine.
_TIMEOUT_S = 180.0
# Where Debian installs PostgreSQL.
_POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for ``plugin.path`` with the converter and Debezium."""
    folder = tmp_path_factory.mktemp("plugins")
    for name in ("confluent-converter", "debezium"):
        (folder / name).mkdir()
        for jar in tool_jars(name):
            (folder / name / jar.name).symlink_to(jar)
    with zipfile.ZipFile(folder / "confluent-converter" / "services.jar", "w") as services:
        services.writestr(_SERVICES, _CONVERTER)
    return folder


def worker_file(folder: Path, kafka: Broker, plugins: Path, registry: str) -> Path:
    """Write the worker's file; ``registry`` stands in place of the page's line for it."""
    replaced = {
        BROKER: kafka.address,
        f"{_URL}{REGISTRY}": registry,
        "/opt/connect/plugins": str(plugins),
        "/var/lib/connect/offsets": str(folder / "offsets"),
    }
    path = write(folder, "connect/worker.properties", replaced)
    own = f"listeners=http://127.0.0.1:{free_port()}\nplugin.discovery=service_load\n"
    path.write_text(path.read_text() + own)
    return path


@contextmanager
def worker(folder: Path, files: Sequence[Path]) -> Iterator[Process]:
    """Run ``connect-standalone`` with ``files`` for a ``with`` block."""
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    command = [java(), *JVM, quiet, "-cp", class_path("kafka-connect"), main, *files]
    process = Process("the Connect worker", command, folder / "worker.txt")
    with process:
        yield process


def copied(folder: Path, kafka: Broker, topic: str, files: Sequence[Path]) -> None:
    """Let the worker read lines into the topic and write them from there, as the page says."""
    lines, out = folder / "in.txt", folder / "out.txt"
    lines.write_text("one\ntwo\n")
    own = {"/srv/in.txt": str(lines), "topic=lines": f"topic={topic}"}
    source = write(folder, "connect/source.properties", own)
    own = {"/srv/out.txt": str(out), "topics=lines": f"topics={topic}"}
    sink = write(folder, "connect/sink.properties", own)
    with worker(folder, [*files, source, sink]) as process:

        def written() -> bool:
            assert process.running, process.output
            return out.exists() and out.read_text() == "one\ntwo\n"

        until(written, _TIMEOUT_S, "the lines to come out of Kafka")


def test_confluents_converter_writes_and_reads_avro(
    kafka: Broker, registry: Served, plugins: Path, topic: str, tmp_path: Path
) -> None:
    copied(tmp_path, kafka, topic, [worker_file(tmp_path, kafka, plugins, _URL + registry.url)])
    assert httpx.get(f"{registry.url}/subjects/{topic}-value/versions/latest").json()["schema"] == '"string"'


@pytest.mark.parametrize("way", WAYS)
def test_the_converter_logs_in(
    kafka: Broker, secured: Secured, plugins: Path, topic: str, tmp_path: Path, way: str
) -> None:
    lines = integrations.secured("connect/secured.properties", way, secured)
    copied(tmp_path, kafka, topic, [worker_file(tmp_path, kafka, plugins, lines)])
    versions = f"{secured.url}/subjects/{topic}-value/versions"
    trusted = ssl.create_default_context(cafile=secured.ca)
    name, password = WRITER.split(":")
    assert httpx.get(versions, auth=(name, password), verify=trusted).json() == [1]


class Database(Process):
    """PostgreSQL on loopback, without passwords. It refuses to run as root, and then runs as its own user."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.port = free_port()
        self._programs = programs
        as_user: list[str | Path] = []
        if os.geteuid() == 0:
            as_user = ["runuser", "-u", "postgres", "--"]
            shutil.chown(folder, "postgres")
        self._data = folder / "data"
        self._initdb = [*as_user, programs / "initdb", "-D", self._data, "-A", "trust", "-U", "postgres"]
        serve: list[str | Path] = [programs / "postgres", "-D", self._data, "-p", str(self.port)]
        settings: list[str | Path] = ["-cwal_level=logical", "-cunix_socket_directories="]
        super().__init__("PostgreSQL", as_user + serve + settings, folder / "printed.txt")

    def start(self) -> Self:
        """Make the data, and start it."""
        subprocess.run(self._initdb, check=True, stdout=subprocess.DEVNULL)
        return super().start()

    def ready(self) -> bool:
        """Return true if it runs statements."""
        return listens(self.port) and self._psql("select 1").returncode == 0

    def run(self, statement: str) -> None:
        """Run a statement."""
        done = self._psql(statement)
        assert done.returncode == 0, done.stderr

    def _psql(self, statement: str) -> subprocess.CompletedProcess[str]:
        at = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        command = [self._programs / "psql", *at, "-v", "ON_ERROR_STOP=1", "-c", statement]
        return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture
def shop() -> Iterator[Database]:
    """Start PostgreSQL with a table of orders."""
    if not _POSTGRES:
        pytest.skip("PostgreSQL's server is not installed")
    # Its user cannot enter pytest's folders.
    with tempfile.TemporaryDirectory() as folder, Database(_POSTGRES[-1], Path(folder)) as database:
        database.run("create table orders (id int primary key, note text, price numeric(10, 2))")
        database.run("insert into orders values (1, 'first', 9.50)")
        yield database


def test_debezium_registers_the_table_and_its_new_columns(
    kafka: Broker, registry: Served, plugins: Path, shop: Database, tmp_path: Path
) -> None:
    own = {
        REGISTRY: registry.url,
        "database.port=5432": f"database.port={shop.port}",
        "database.user=debezium": "database.user=postgres",
        "database.dbname=shop": "database.dbname=postgres",
    }
    source = write(tmp_path, "connect/debezium.properties", own)
    versions = f"{registry.url}/subjects/shop.public.orders-value/versions"
    with worker(tmp_path, [worker_file(tmp_path, kafka, plugins, _URL + registry.url), source]) as process:

        def has(wanted: list[int]) -> bool:
            assert process.running, process.output
            return bool(httpx.get(versions, timeout=PATIENT).json() == wanted)

        until(lambda: has([1]), _TIMEOUT_S, "a version of the table")
        shop.run("alter table orders add column paid boolean default false")
        shop.run("insert into orders values (2, 'second', 1.25, true)")
        until(lambda: has([1, 2]), _TIMEOUT_S, "a version with the new column")
    subjects = httpx.get(f"{registry.url}/subjects?subjectPrefix=shop.").json()
    assert subjects == ["shop.public.orders-key", "shop.public.orders-value"]
    assert [row["after"] for row in decoded(kafka, registry)] == [
        {"id": 1, "note": "first", "price": "9.50"},
        {"id": 2, "note": "second", "price": "1.25", "paid": True},
    ]


def decoded(kafka: Broker, registry: Served) -> list[dict[str, Any]]:
    """Return Debezium's messages, as ``registrar decode`` prints them."""
    where = ["--kafka", kafka.address, "--topic", "shop.public.orders"]
    which = ["--offset", "earliest", "--count", "2"]
    command = [sys.executable, "-m", "registry", "decode", "--url", registry.url, *where, *which]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return [json.loads(line) for line in printed.splitlines()]
