"""Three nodes over one topic: writes through any of them, and reads that miss nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from deploy.local.broker import Broker
from tests.support.running import PATIENT, Registry, until

SECRET = "peers of this test only"
STALE = '110 - "Response is Stale"'
KIND = "application/vnd.schemaregistry.v1+json"

# For nodes that a test cuts off from the log: every read that cannot be confirmed takes this long.
QUICKLY = ("--confirm-timeout-s", "0.5")

http = httpx.Client(timeout=40, verify=False)


class Cluster:
    """Start nodes over one topic; they are in the order of their start."""

    def __init__(self, folder: Any, kafka: Broker, name: str) -> None:
        self._folder = folder
        self.flags = (
            "--kafka",
            kafka.address,
            "--topic",
            name,
            "--group",
            name,
            "--replication-factor",
            "1",
            # On a busy machine, confirming reads may take longer than the default allows.
            "--confirm-timeout-s",
            "10",
        )
        self.nodes: list[Registry] = []

    def start(self, *flags: str) -> Registry:
        node = Registry(self._folder / f"n{len(self.nodes)}", *self.flags, *flags)
        self.nodes.append(node)
        return node

    def primary(self) -> Registry:
        found: Registry = until(lambda: _primary(self.running), 30, "a primary that all agree on")
        return found

    def secondaries(self) -> list[Registry]:
        primary = self.primary()
        return [node for node in self.running if node is not primary]

    @property
    def running(self) -> list[Registry]:
        return [node for node in self.nodes if node.process.poll() is None]

    def close(self) -> None:
        for node in self.running:
            node.process.terminate()
        for node in self.running:
            node.stop()


def _primary(nodes: list[Registry]) -> Registry | None:
    told = [get(node, "/node").json() for node in nodes]
    named = {each["primary"] for each in told}
    writing = [node for node, each in zip(nodes, told, strict=True) if each["role"] == "primary"]
    return writing[0] if len(writing) == 1 and named == {writing[0].url} else None


@pytest.fixture(scope="module", autouse=True)
def _closed_at_the_end() -> Iterator[None]:
    yield
    http.close()


@pytest.fixture(scope="module")
def cluster(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nodes with two readers and with one."""
    found = Cluster(tmp_path_factory.mktemp("cluster"), kafka, "forwarding")
    yield from _started(found, "--peer-secret", SECRET, "--access-log", "true")


@pytest.fixture
def quick(kafka: Broker, tmp_path: Path) -> Iterator[Cluster]:
    """The same, for a test that cuts the node off from the log."""
    yield from _started(Cluster(tmp_path, kafka, "quick"), "--peer-secret", SECRET, *QUICKLY)


def _started(cluster: Cluster, *flags: str) -> Iterator[Cluster]:
    for readers in ("2", "1", "1"):
        cluster.start("--readers", readers, *flags)
    try:
        for node in cluster.nodes:
            node.wait()
        yield cluster
    finally:
        cluster.close()


def get(node: Registry, path: str, **headers: str) -> httpx.Response:
    return http.get(node.url + path, headers=headers)


def register(node: Registry, subject: str, schema: str, **headers: str) -> httpx.Response:
    return http.post(
        f"{node.url}/subjects/{subject}/versions",
        json={"schema": schema},
        headers={"content-type": KIND, **headers},
    )


def record(field: str) -> str:
    """Return a schema that is compatible with all others of this kind."""
    fields = [{"name": field, "type": "int", "default": 0}]
    return orjson.dumps({"type": "record", "name": "R", "fields": fields}).decode()


def register_ddl(node: Registry, subject: str, text: str) -> httpx.Response:
    body = {"schemaType": "AVRO", "schema": text}
    return http.post(f"{node.url}/subjects/{subject}/versions?format=logical", json=body)


def test_an_association_made_through_any_node_is_seen_at_all_others_at_once(cluster: Cluster) -> None:
    for number, node in enumerate(cluster.nodes):
        named = {"resourceName": f"n{number}", "resourceNamespace": "ns", "resourceId": f"r{number}"}
        wanted = {"associationType": "value", "schema": {"schema": record(f"A{number}")}}
        body = named | {"associations": [wanted]}
        made = http.post(f"{node.url}/associations", json=body).raise_for_status()
        subject = made.json()["associations"][0]["subject"]
        for other in cluster.nodes:
            for path in (f"resources/r{number}", f"resources/-/n{number}", f"subjects/{subject}"):
                (found,) = get(other, f"/associations/{path}").json()
                assert found["subject"] == subject
            (schema,) = get(other, f"/schemas?subjectPrefix={subject}&lifecycle=STRONG").json()
            assert schema["subject"] == subject
            refused = http.delete(f"{other.url}/subjects/{subject}")
            assert (refused.status_code, refused.json()["error_code"]) == (409, 40904)
        gone = http.delete(f"{node.url}/associations/resources/r{number}?cascadeLifecycle=true")
        assert gone.status_code == 204
        assert int(gone.headers["x-registry-offset"]) > int(made.headers["x-registry-offset"])
        for other in cluster.nodes:
            assert get(other, f"/associations/resources/r{number}").json() == []
            assert get(other, f"/subjects/{subject}/versions?deleted=true").status_code == 404


def test_what_is_written_through_any_node_is_there_at_all_others_at_once(cluster: Cluster) -> None:
    for number, node in enumerate(cluster.nodes):
        reply = register(node, "everywhere", record(f"R{number}")).raise_for_status()
        for other in cluster.nodes:
            latest = get(other, "/subjects/everywhere/versions/latest").json()
            assert (latest["version"], latest["id"]) == (number + 1, reply.json()["id"])
            listed = get(other, "/subjects/everywhere/versions").json()
            assert listed == list(range(1, number + 2))
            found = get(other, f"/schemas/ids/{reply.json()['id']}")
            assert found.status_code == 200
            offset = reply.headers["x-registry-offset"]
            assert int(found.headers["x-registry-offset"]) >= int(offset)


def test_refusals_and_other_writes_come_back_through_a_secondary_as_from_the_primary(
    cluster: Cluster,
) -> None:
    node = cluster.secondaries()[0]
    with httpx.Client(base_url=node.url, timeout=PATIENT, verify=False) as client:
        register(node, "other", record("A"))
        refused = register(node, "other", '{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]}')
        assert (refused.status_code, refused.json()["error_code"]) == (409, 40901)
        assert client.put("/config/other", json={"compatibility": "NONE"}).json() == {"compatibility": "NONE"}
        assert client.put("/mode/other", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
        assert client.delete("/subjects/other").json()["error_code"] == 42205
        assert client.delete("/mode/other").status_code == 200
        assert client.delete("/subjects/other").json() == [1]
        assert client.delete("/subjects/missing").json()["error_code"] == 40401
        assert client.delete("/contexts/.none").status_code == 204


def test_tables_are_registered_and_refused_through_a_secondary_as_through_the_primary(
    cluster: Cluster,
) -> None:
    """DDL is converted by the node that is asked; the refusal of many columns is long, and has lines."""
    node, primary = cluster.secondaries()[0], cluster.primary()
    columns = ", ".join(f"column_of_a_wide_table_{number} INT NOT NULL DEFAULT 0" for number in range(2000))
    put = http.put(
        f"{node.url}/config/table", json={"compatibility": "FULL", "compatibilityPolicy": "LOGICAL"}
    )
    assert put.status_code == 200
    made = register_ddl(node, "table", "STRUCT R (a INT NOT NULL)").raise_for_status()
    assert made.json() == register_ddl(primary, "table", "struct R (a int not null)").json()
    refused = [
        register_ddl(each, "table", f"STRUCT R (a INT NOT NULL, {columns})") for each in (node, primary)
    ]
    assert [each.status_code for each in refused] == [409, 409]
    assert refused[0].content == refused[1].content
    message = refused[0].json()["message"]
    assert message.count("\nFIELD_DELETED at 'column_of_a_wide_table_") == 1999
    assert (
        "Logical compatibility (ICEBERG_V2, forward): FIELD_DELETED at 'column_of_a_wide_table_0'" in message
    )
    assert message.endswith("compatibility: 'FULL'}]")


def test_a_schema_that_another_node_deleted_is_not_acknowledged_from_old_rows(cluster: Cluster) -> None:
    one, other, third = cluster.nodes
    for number in range(5):
        subject = f"gone{number}"
        register(one, subject, record("R")).raise_for_status()
        for node in (one, other, third):
            get(node, f"/subjects/{subject}/versions/latest").raise_for_status()
        http.delete(f"{other.url}/subjects/{subject}").raise_for_status()
        for node in (one, third):
            missing = get(node, f"/subjects/{subject}/versions/latest")
            assert missing.json()["error_code"] == 40401
        assert register(third, subject, record("R")).json()["version"] == 2


def test_who_asked_any_node_is_known_to_all(cluster: Cluster) -> None:
    found = register(cluster.nodes[0], "asked", record("R")).json()["id"]
    for number, node in enumerate(cluster.nodes):
        for _ in range(number + 1):
            get(node, f"/schemas/ids/{found}", **{"user-agent": f"client-{number}"}).raise_for_status()

    def requests(node: Registry) -> dict[str, int]:
        answer = get(node, "/usage/subjects/asked/askers").raise_for_status().json()
        assert answer["missing"] == []
        return {each["agent"]: each["requests"] for each in answer["askers"] if "client" in each["agent"]}

    for node in cluster.nodes:
        until(
            lambda node=node: requests(node) == {"client-0": 1, "client-1": 2, "client-2": 3},
            30,
            "the counts of all readers",
        )


def test_an_offset_from_one_node_is_reached_by_the_others_or_refused(cluster: Cluster) -> None:
    one, other, _ = cluster.nodes
    offset = int(register(one, "offsets", record("R")).headers["x-registry-offset"])
    for wanted, status in ((offset, 200), (offset + 1000, 400)):
        assert get(other, "/config", **{"x-registry-min-offset": str(wanted)}).status_code == status


def test_request_ids_reach_the_primary(cluster: Cluster) -> None:
    primary, node = cluster.primary(), cluster.secondaries()[0]
    reply = register(node, "named", record("R"), **{"x-request-id": "a-request-like-no-other"})
    assert reply.headers["x-request-id"] == "a-request-like-no-other"
    assert "request a-request-like-no-other" in primary.output


def test_a_confluent_node_that_takes_a_secondary_for_the_primary_is_asked_to_ask_again(
    cluster: Cluster,
) -> None:
    for node in cluster.secondaries():
        reply = register(node, "forwarded", record("R"), **{"x-forward": "true"})
        assert (reply.status_code, reply.json()["error_code"]) == (500, 50004)
        assert reply.headers["retry-after"] == "1"
    assert register(cluster.primary(), "forwarded", record("R"), **{"x-forward": "true"}).status_code == 200


@pytest.mark.logs_errors("cannot query Kafka for the end")
def test_cut_off_from_the_log_what_is_there_is_read_and_nothing_is_said_to_be_missing(
    quick: Cluster, kafka: Broker
) -> None:
    found = register(quick.nodes[0], "cut", record("R")).json()["id"]
    for node in quick.nodes:
        until(
            lambda node=node: get(node, "/subjects/cut/versions/latest").status_code == 200,
            30,
            "all to have it",
        )
    kafka.freeze()
    try:
        for node in quick.nodes:
            with httpx.Client(base_url=node.url, timeout=20, verify=False) as client:
                latest = client.get("/subjects/cut/versions/latest")
                assert (latest.status_code, latest.headers["warning"]) == (200, STALE)
                listed = client.get("/subjects/cut/versions")
                assert (listed.json(), listed.headers["warning"]) == ([1], STALE)
                by_id = client.get(f"/schemas/ids/{found}")
                assert by_id.status_code == 200
                assert "warning" not in by_id.headers
                for missing in ("/schemas/ids/999999", "/subjects/none/versions/latest"):
                    reply = client.get(missing)
                    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    finally:
        kafka.thaw()
    # A broker that was frozen may answer, and then be fenced for a moment.
    for node in quick.nodes:
        until(lambda node=node: _confirms(node), 30, "reads to be confirmed again")


def _confirms(node: Registry) -> bool:
    return (
        "warning" not in get(node, "/subjects").headers
        and get(node, "/schemas/ids/999999").status_code == 404
    )


class Writing:
    """Registers one new schema after another through ``nodes`` in turn, until it is stopped."""

    def __init__(self, subject: str, *nodes: Registry) -> None:
        self._subject = subject
        self._nodes = nodes
        self._stopping = threading.Event()
        self.replies: list[httpx.Response] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.02):
            number = len(self.replies)
            node = self._nodes[number % len(self._nodes)]
            self.replies.append(
                register(node, f"{self._subject}{number}", record(f"{self._subject}{number}"))
            )

    def until_more(self, count: int) -> None:
        wanted = len(self.replies) + count
        until(lambda: len(self.replies) >= wanted or not self._thread.is_alive(), 60, f"{count} writes")

    def stop(self) -> list[httpx.Response]:
        self._stopping.set()
        self._thread.join()
        return self.replies


def _ended(cluster: Cluster, subject: str, end: Callable[[Registry], object]) -> None:
    """Writes through the secondaries while the primary stops: none fails, and all are visible afterwards."""
    primary, secondaries = cluster.primary(), cluster.secondaries()
    writing = Writing(subject, *secondaries)
    writing.until_more(10)
    end(primary)
    writing.until_more(20)
    primary.process.wait(20)
    replies = writing.stop()
    assert [reply.status_code for reply in replies] == [200] * len(replies)
    ids = [reply.json()["id"] for reply in replies]
    assert sorted(set(ids)) == ids
    for node in secondaries:
        for number, schema_id in enumerate(ids):
            assert get(node, f"/subjects/{subject}{number}/versions/latest").json()["id"] == schema_id


@pytest.mark.logs_errors(r"ended \(SIGKILL\)")
def test_writes_wait_while_another_node_takes_over_from_one_that_stops_or_is_killed(
    kafka: Broker, tmp_path: Any
) -> None:
    cluster = Cluster(tmp_path, kafka, "handover")
    try:
        for node in [cluster.start("--readers", "1") for _ in range(3)]:
            node.wait()
        _ended(cluster, "stopped", lambda primary: primary.process.terminate())
        _ended(cluster, "killed", lambda primary: primary.kill())
    finally:
        cluster.close()


def test_a_primary_that_names_no_peer_endpoint_is_written_through_as_confluents(
    kafka: Broker, tmp_path: Any
) -> None:
    cluster = Cluster(tmp_path, kafka, "plain")
    try:
        primary = cluster.start("--election", "static", "--readers", "1").wait()
        short = ("--request-timeout-s", "3", "--readers", "1")
        node = cluster.start("--election", "static", "--primary", primary.url, *short).wait()
        made = register(node, "plain", record("R"), **{"x-request-id": "plain-1"})
        assert made.json()["version"] == 1
        latest = get(node, "/subjects/plain/versions/latest")
        assert latest.json()["id"] == made.json()["id"]
        assert int(made.headers["x-registry-offset"]) > 0
        refused = http.delete(f"{node.url}/subjects/none")
        assert (refused.status_code, refused.json()["error_code"]) == (404, 40401)
        with httpx.Client(base_url=node.url, timeout=PATIENT, verify=False) as client:
            assert client.put("/config", json={"compatibility": "NONE"}).json() == {"compatibility": "NONE"}
            assert (
                client.put("/mode/plain", json={"mode": "IMPORT"}, params={"force": "true"}).status_code
                == 200
            )
            assert client.delete("/mode/plain").status_code == 200
            assert client.delete("/subjects/plain/versions/latest").json() == 1
            assert client.delete("/subjects/plain", params={"permanent": "true"}).json() == [1]
            assert client.delete("/contexts/.none").status_code == 204
        primary.stop()
        gone = register(node, "plain", record("R"))
        # The node replies when the time is up; if it is a little late, its reader gets no reply.
        assert (gone.status_code, gone.json()["error_code"]) in {(500, 50003), (500, 50002)}
    finally:
        cluster.close()


@pytest.mark.logs_errors("cannot query Kafka for the end", "Kafka does not answer")
def test_a_node_that_starts_without_its_log_serves_what_it_has(kafka: Broker, tmp_path: Any) -> None:
    cluster = Cluster(tmp_path, kafka, "away")
    try:
        node = cluster.start("--readers", "1").wait()
        register(node, "away", record("a")).raise_for_status()
        node.stop()
        kafka.freeze()
        again = Registry(node.data, *cluster.flags, *QUICKLY, "--readers", "1", port=node.port)
        cluster.nodes = [again]
        reply = until(lambda: _answered(again, "/subjects/away/versions/latest"), 30, "the rows to be served")
        assert (reply.json()["version"], reply.headers["warning"]) == (1, STALE)
        assert get(again, "/subjects/none/versions/latest").status_code == 503
        assert get(again, "/health/ready").status_code == 503
        kafka.thaw()
        again.wait()
        until(lambda: _confirms(again), 30, "reads to be confirmed")
    finally:
        kafka.thaw()
        cluster.close()


def _answered(node: Registry, path: str) -> httpx.Response | None:
    try:
        reply = get(node, path)
    except httpx.TransportError:
        return None
    return reply if reply.status_code == 200 else None
