"""The real servers that tests run on: they start, stop, die, freeze and come back as a user's do."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from deploy.local import jars
from deploy.local.broker import COMPACTS_SOON, Broker, Brokers
from deploy.local.process import Process
from deploy.local.proxy import Proxy
from deploy.local.zookeeper import ZooKeeper
from snapshots.spark.jars import NotAvailable
from tests.support.running import ROOT, until

QUIET = {"log_level": 0}


def sent(address: str, topic: str, *values: bytes, key: bytes | None = None, timeout_s: float = 30.0) -> bool:
    """Return true if everything was acknowledged in time."""
    producer = Producer({"bootstrap.servers": address, "message.timeout.ms": int(timeout_s * 1000), **QUIET})
    failed: list[object] = []
    for value in values:
        producer.produce(
            topic, value, key, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    return producer.flush(timeout_s + 5) == 0 and not failed


def values(address: str, topic: str, count: int) -> list[bytes | None]:
    """Return the first records of a topic; fewer if no more come."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"{uuid.uuid4()}",
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    try:
        consumer.subscribe([topic])
        return [message.value() for message in consumer.consume(count, 30)]
    finally:
        consumer.close()


def test_a_process_that_ended_by_itself_leaves_no_watcher_behind_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    process = Process("one that ends", ["true"], tmp_path / "output").start()
    former = process._watch
    until(lambda: not process.running, 30, "the process to end")
    process.start()
    assert former.returncode is not None
    until(lambda: not process.running, 30, "the process to end again")
    assert process.stop() == 0


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start a broker that these tests may stop."""
    with Broker(tmp_path_factory.mktemp("own"), settings=COMPACTS_SOON, proxies=1) as broker:
        yield broker


# In make test, tests/faults/ kills and starts a broker.
@pytest.mark.long
def test_a_broker_keeps_address_and_records_over_stop_and_kill(own: Broker) -> None:
    address = own.address
    assert sent(address, "kept", b"1")
    assert own.restart().address == address
    assert sent(address, "kept", b"2")
    own.kill()
    assert not own.running
    own.start().wait()
    assert values(address, "kept", 2) == [b"1", b"2"]


def test_a_frozen_broker_answers_nobody_and_goes_on_when_thawed(kafka: Broker) -> None:
    assert sent(kafka.address, "frozen", b"1")
    kafka.freeze()
    try:
        assert not sent(kafka.address, "frozen", b"2", timeout_s=0.5)
    finally:
        kafka.thaw()
    assert sent(kafka.address, "frozen", b"3")


# In make test, tests/contract/log/test_kafka_log_reading.py moves the partition of such brokers.
@pytest.mark.long
def test_three_brokers_move_a_partition_when_its_host_dies(tmp_path: Path) -> None:
    with Brokers(tmp_path, settings={"min.insync.replicas": "2"}) as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.address, **QUIET})
        admin.create_topics([NewTopic("moved", 1, 3)])["moved"].result(30)
        assert sent(brokers.address, "moved", b"1")

        def first_replica() -> int:
            # The broker that is asked may be the one that is gone.
            with suppress(KafkaException):
                number: int = admin.list_topics(timeout=10).topics["moved"].partitions[0].leader
                return number
            return -1

        before = until(lambda: first_replica() > 0 and first_replica(), 30, "somebody to lead the partition")
        brokers.nodes[before - 1].kill()
        until(lambda: first_replica() not in {before, -1}, 60, "the partition to move")
        assert sent(brokers.address, "moved", b"2")
        assert values(brokers.address, "moved", 2) == [b"1", b"2"]


def test_compaction_can_be_forced(own: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": own.address, **QUIET})
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.compaction.lag.ms": "0"}
    admin.create_topics([NewTopic("compacted", 1, 1, config=config)])["compacted"].result(30)
    assert sent(own.address, "compacted", b"old", b"older", key=b"a")

    def compacted() -> bool:
        # Only a record that is written later closes the segment before it.
        assert sent(own.address, "compacted", b"new", key=b"b")
        return values(own.address, "compacted", 1) != [b"old"]

    until(compacted, 60, "the replaced record to go")


def test_a_client_behind_a_proxy_is_cut_off_alone(own: Broker) -> None:
    cut_off = own.proxies[0]
    assert sent(cut_off.address, "apart", b"1")
    cut_off.cut()
    assert not sent(cut_off.address, "apart", b"2", timeout_s=0.5)
    assert sent(own.address, "apart", b"3")
    cut_off.heal()
    assert sent(cut_off.address, "apart", b"4")


# In make test, tests/contract/election/ restarts a ZooKeeper.
@pytest.mark.long
def test_a_zookeeper_keeps_what_it_was_given_over_stop_and_kill(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as server:
        told(server, lambda client: client.create("/kept", b"1"))
        server.restart()
        server.kill()
        server.start().wait()
        assert told(server, lambda client: client.get("/kept")[0]) == b"1"


def told(server: ZooKeeper, request) -> object:
    client = KazooClient(server.address)
    client.start(30)
    try:
        return request(client)
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_dies_with_who_started_it(tmp_path: Path, number: signal.Signals) -> None:
    script = (
        "import os, pathlib, sys; from deploy.local.zookeeper import ZooKeeper;"
        "server = ZooKeeper(pathlib.Path(sys.argv[1])).start().wait();"
        "server.freeze(); print(server.pid, flush=True); os.kill(os.getpid(), int(sys.argv[2]))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "zookeeper"), str(int(number))]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -number
    until(lambda: not alive(int(done.stdout)), 30, "the orphan to end")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.fixture
def echo() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)


def test_a_cut_network_loses_nothing_and_informs_nobody(echo: socket.socket) -> None:
    with Proxy(address(echo)) as proxy, connect(proxy) as client:
        server, _ = echo.accept()
        with server:
            client.sendall(b"before")
            assert server.recv(6) == b"before"
            proxy.cut()
            client.sendall(b"later")
            server.settimeout(0.1)
            with pytest.raises(TimeoutError):
                server.recv(1)
            with connect(proxy) as newcomer:
                newcomer.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    newcomer.recv(1)
            proxy.heal()
            server.settimeout(30)
            assert server.recv(5) == b"later"
            client.shutdown(socket.SHUT_WR)
            assert server.recv(1) == b""
            server.sendall(b"answer")
            assert client.recv(6) == b"answer"


def test_a_refusing_proxy_breaks_connections_and_takes_none(echo: socket.socket) -> None:
    with Proxy(address(echo)) as proxy:
        with connect(proxy) as client:
            server, _ = echo.accept()
            with server:
                proxy.refuse()
                assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.heal()
        with connect(proxy):
            until(lambda: proxy.connections == 1, 30, "the new connection")


def test_a_jar_that_is_not_the_listed_one_is_refused(tmp_path: Path) -> None:
    for jar in jars.kafka():
        (tmp_path / jar.name).symlink_to(jar)
    jars.kafka_jars().check(tmp_path)
    jar = tmp_path / "slf4j-simple-1.7.36.jar"
    jar.unlink()
    jar.write_bytes(b"something else")
    with pytest.raises(NotAvailable, match=r"slf4j-simple-1\.7\.36\.jar: the checksum is not"):
        jars.kafka_jars().check(tmp_path)


def test_no_java_is_reported_in_one_line(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-m", "deploy.local.jars"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"Java {jars.JAVA_OLDEST} or newer is needed: install")
