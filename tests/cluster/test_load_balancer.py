"""Three nodes behind one URL, real serializers, and nodes that die one after another: no client notices."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.front import Front
from deploy.local.node import Node
from tests.support.running import until

TURNS_MAX = 5_000
# Of a client between two turns: more of them in the same time would show nothing else.
PAUSE_S = 0.02
# The number of rounds that every client makes between two kills.
BETWEEN_KILLS = 8


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka: Broker) -> Iterator[Cluster]:
    own = (
        *("--topic", "behind-one-url", "--group", "behind-one-url", "--compatibility-budget-s", "1"),
        # A busy machine may confirm reads later than by default; they would be answered with a warning or not
        # at all.
        *("--confirm-timeout-s", "10"),
    )
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, settings=own, kafka=kafka.address, front_by="nginx") as running:
        yield running


@pytest.fixture(scope="module")
def haproxy(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Front]:
    addresses = [node.address for node in cluster.nodes]
    with Front("haproxy", tmp_path_factory.mktemp("haproxy"), addresses) as running:
        yield running


@dataclass
class Application:
    """Writes messages of new types through ``url`` and has another client read each of them immediately."""

    name: str
    url: str
    stopped: threading.Event
    # Acknowledged writes: the id of each subject's schema.
    ids: dict[str, int] = field(default_factory=dict)
    error: Exception | None = None
    turns: int = 0

    def run(self) -> None:
        try:
            with self.client() as writer, self.client() as reader:
                while not self.stopped.wait(PAUSE_S) and self.turns < TURNS_MAX:
                    self.turn(writer, reader, self.turns)
                    self.turns += 1
        except Exception as error:
            self.error = error

    def turn(self, writer: SchemaRegistryClient, reader: SchemaRegistryClient, number: int) -> None:
        schema = {
            "type": "record",
            "name": f"{self.name}{number}",
            "fields": [{"name": "n", "type": "long"}],
        }
        context = SerializationContext(f"{self.name}-{number}", MessageField.VALUE)
        message = AvroSerializer(writer, json.dumps(schema))({"n": number}, context)
        self.ids[f"{self.name}-{number}-value"] = int.from_bytes(message[1:5])
        assert AvroDeserializer(reader)(message, context) == {"n": number}
        assert reader.get_latest_version(f"{self.name}-{number}-value").version == 1

    def client(self) -> SchemaRegistryClient:
        """Return a client that does not retry errors that the cluster should avoid."""
        return SchemaRegistryClient({"url": self.url, "max.retries": 0, "timeout": 60})


# In make test, tests/process/node/test_workers.py compares as long on a node alone, while it writes.
@pytest.mark.long
def test_heartbeats_go_on_while_schemas_are_compared(cluster: Cluster) -> None:
    primary = cluster.primary()
    epoch = primary.status()["epoch"]

    def deep(leaf: str) -> dict[str, str]:
        text = '{"anyOf":[{"type":"null"},' * 1000 + f'{{"type":"{leaf}"}}' + "]}" * 1000
        return {"schemaType": "JSON", "schema": text}

    def compare(path: str) -> None:
        answers.append(httpx.post(primary.url + path, json=deep("integer"), timeout=60).status_code)

    answers: list[int] = []
    httpx.post(f"{primary.url}/subjects/deep/versions", json=deep("string"), timeout=60).raise_for_status()
    paths = ("/subjects/deep/versions", "/compatibility/subjects/deep/versions/latest")
    threads = [threading.Thread(target=compare, args=(path,)) for path in paths]
    for each in threads:
        each.start()
    written = 0
    while len(answers) < len(threads):
        schema = {"schema": json.dumps({"type": "enum", "name": "E", "symbols": [f"S{written}"]})}
        path = f"/subjects/beside-{written}/versions"
        httpx.post(primary.url + path, json=schema, timeout=60).raise_for_status()
        written += 1
    for each in threads:
        each.join()
    assert set(answers) <= {422, 503}, "its fault, or that of a busy machine"
    assert written > 5
    assert (primary.role, primary.status()["epoch"]) == ("primary", epoch)
    told = {line.split(" ")[0] for line in primary.ask("/metrics")[1].decode().splitlines()}
    assert {"registrar_heartbeat_age_seconds", "registrar_heartbeat_gap_seconds"} < told
    assert 'registrar_event_loop_lag_seconds{loop="election"}' in told


def test_every_node_reports_how_many_it_knows(cluster: Cluster) -> None:
    def known(node: Node) -> str:
        lines = node.ask("/metrics")[1].decode().splitlines()
        return next((line for line in lines if line.startswith("registrar_nodes ")), "")

    primary = cluster.primary()
    until(lambda: known(primary) == "registrar_nodes 3.0", 30, "all nodes to watch the primary")
    assert {known(node) for node in cluster.nodes if node is not primary} == {"registrar_nodes 2.0"}


def test_every_node_describes_all_of_them(cluster: Cluster) -> None:
    primary = cluster.primary()

    def listed(node: Node) -> dict[str, tuple[str, str]]:
        """Return role and digest of each node, as one of them tells."""
        found = json.loads(node.ask("/admin/cluster")[1])
        assert found["primary"] == primary.url
        return {each["url"]: (each["role"], each["digest"]) for each in found["nodes"]}

    digest = primary.status()["digest"]
    wanted = {node.url: ("primary" if node is primary else "secondary", digest) for node in cluster.nodes}
    for node in cluster.nodes:
        until(lambda node=node: listed(node) == wanted, 30, f"{node.url} to know all nodes")
        [*_, last] = json.loads(node.ask("/admin/cluster")[1])["primacies"]
        assert (last["url"], last["epoch"]) == (primary.url, primary.status()["epoch"])


def subjects_of(node: Node) -> dict[str, int]:
    with SchemaRegistryClient({"url": node.url, "max.retries": 0}) as client:
        return {subject: client.get_latest_version(subject).schema_id for subject in client.get_subjects()}


# The primary alone in make test, which shows what the others do to their own clients.
@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.long)])
def test_nodes_die_one_after_another_and_no_application_notices(
    cluster: Cluster, haproxy: Front, count: int
) -> None:
    stopped = threading.Event()
    urls = {"nginx": cluster.url, "nginxtoo": cluster.url, "haproxy": haproxy.url}
    applications = [Application(f"{name}{count}", url, stopped) for name, url in urls.items()]
    threads = [threading.Thread(target=each.run, name=each.name) for each in applications]
    for thread in threads:
        thread.start()
    try:
        primary = cluster.primary()
        others = [node for node in cluster.nodes if node is not primary]
        for node in (primary, *others)[:count]:
            until_all_went_on(applications)
            node.kill()
            until_all_went_on(applications)
            cluster.primary()
            node.start().wait()
        until_all_went_on(applications)
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    for application in applications:
        if application.error is not None:
            raise application.error
    acknowledged = {subject: id_ for each in applications for subject, id_ in each.ids.items()}
    assert len(set(acknowledged.values())) == len(acknowledged), "an id was given twice"
    for node in cluster.nodes:
        held = subjects_of(node)
        assert acknowledged.items() <= held.items()


def until_all_went_on(applications: list[Application]) -> None:
    wanted = {each.name: each.turns + BETWEEN_KILLS for each in applications}

    def went_on() -> bool:
        return all(each.error is not None or each.turns >= wanted[each.name] for each in applications)

    until(went_on, 120, f"{BETWEEN_KILLS} more turns of everybody")
