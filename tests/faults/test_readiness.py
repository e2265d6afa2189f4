"""Readiness for traffic and for writes while the log is missing; what probes and balancers do then."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from deploy.local.broker import Broker
from deploy.local.front import Front
from deploy.local.node import Node
from tests.support.helm import render
from tests.support.running import PATIENT, ROOT, until

from .rig import HEAL_S, Rig

PROBES = {
    "startupProbe": "/health/started",
    "readinessProbe": "/health/ready",
    "livenessProbe": "/health/live",
}
FOR_WRITES = "/health/ready?for=writes"
# Each miss is tried at all three nodes.
READS = 2


def asked(url: str, path: str) -> httpx.Response:
    return httpx.get(url + path, timeout=PATIENT)


def health(node: Node, path: str) -> dict[str, Any]:
    found: dict[str, Any] = asked(node.url, path).json()
    return found


@pytest.fixture(scope="module")
def schema_id(rig: Rig) -> int:
    answer = httpx.post(
        f"{rig.primary().url}/subjects/kept/versions", json={"schema": '"string"'}, timeout=PATIENT
    )
    found: int = answer.json()["id"]
    for node in rig.nodes:
        until(lambda node=node: asked(node.url, f"/schemas/ids/{found}").status_code == 200, HEAL_S, "the id")
    return found


@pytest.fixture(scope="module")
def fronts(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Front]]:
    nodes = [node.address for node in rig.nodes]
    with ExitStack() as stack:
        yield [
            stack.enter_context(Front(program, tmp_path_factory.mktemp(program), nodes))
            for program in ("haproxy", "nginx")
        ]


def chart_probes() -> dict[str, str]:
    """Return the paths that kubelet asks, by the name of the probe."""
    (case,) = render([{"kafka": {"brokers": "kafka-1:9092"}}])
    (container,) = case.one("StatefulSet")["spec"]["template"]["spec"]["containers"]
    return {name: each["httpGet"]["path"] for name, each in container.items() if name.endswith("Probe")}


def verbs_show(nodes: Sequence[Node]) -> None:
    """Check what ``registrar status`` and ``doctor`` say of nodes that are ready, but not for writes."""
    urls = ",".join(node.url for node in nodes)
    said = {verb: json_of(verb, *words) for verb, words in (("status", ("--url", urls)), ("doctor", (urls,)))}
    assert {(each["ready"], each["ready_for_writes"]) for each in said["status"]["nodes"]} == {(True, False)}
    for node in nodes:
        assert any(
            each.startswith(f"{node.url} is not ready for writes: ") for each in said["status"]["problems"]
        )
    found = said["doctor"]["findings"]
    errors = [each for each in found if each["severity"] == "error"]
    assert {each["about"] for each in errors if "not for writes" in each["text"]} == {
        node.url for node in nodes
    }
    assert all(each["advice"] for each in errors)


def json_of(verb: str, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "registry", verb, *words, "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_no_probe_and_no_balancer_takes_reads_away_while_the_broker_is_down(
    rig: Rig, broker: Broker, fronts: list[Front], schema_id: int
) -> None:
    rig.wait()
    probes = chart_probes()
    assert probes == PROBES
    for path in (*probes.values(), FOR_WRITES):
        for node in rig.nodes:
            until(lambda node=node, path=path: asked(node.url, path).status_code == 200, HEAL_S, path)
    broker.kill()
    try:
        for node in rig.nodes:
            until(
                lambda node=node: asked(node.url, FOR_WRITES).status_code == 503,
                HEAL_S,
                "the loss to be noticed",
            )
            told = health(node, "/health/ready")
            assert (told["status"], told["reasons"], told["ready_for_writes"]) == ("ready", [], False)
            assert [asked(node.url, path).status_code for path in probes.values()] == [200, 200, 200]
            assert health(node, FOR_WRITES)["status"] == "not ready for writes"
        verbs_show(rig.nodes)
        for front in fronts:
            # A miss, which nobody can check now, must not cost the hits their nodes.
            for _ in range(READS):
                assert asked(front.url, "/schemas/ids/999999").status_code == 503
                assert asked(front.url, f"/schemas/ids/{schema_id}").status_code == 200, front.name
    finally:
        broker.start().wait()
    for node in rig.nodes:
        until(lambda node=node: asked(node.url, FOR_WRITES).status_code == 200, HEAL_S, "writes")
    for front in fronts:
        written = httpx.post(
            f"{front.url}/subjects/kept/versions", json={"schema": '"string"'}, timeout=PATIENT
        )
        assert written.json()["id"] == schema_id


def test_a_node_that_is_cut_off_alone_leaves_the_rotation_until_nobody_is_better_off(
    rig: Rig, broker: Broker, schema_id: int
) -> None:
    """Once the others are cut off as well, it is as good as they are, and ready."""
    rig.wait()
    cut = rig.primary()
    others = rig.others(cut)
    broker.proxies[rig.nodes.index(cut)].cut()
    try:
        until(lambda: asked(cut.url, "/health/ready").status_code == 503, HEAL_S, "it to leave")
        (reason,) = health(cut, "/health/ready")["reasons"]
        assert reason.endswith(tuple(f"; {node.url} reaches the log" for node in others))
        assert asked(cut.url, f"/schemas/ids/{schema_id}").status_code == 200
        assert [asked(node.url, "/health/ready").status_code for node in others] == [200, 200]
        rig.primary(but=cut)
        for node in others:
            broker.proxies[rig.nodes.index(node)].cut()
        until(cut.ready, HEAL_S, "it to be as good as the others")
        assert [asked(node.url, "/health/ready").status_code for node in others] == [200, 200]
    finally:
        for line in broker.proxies:
            line.heal()
    for node in rig.nodes:
        until(lambda node=node: asked(node.url, FOR_WRITES).status_code == 200, HEAL_S, "writes")
