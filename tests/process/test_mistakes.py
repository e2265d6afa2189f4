"""Mistakes of operators: the message names the setting, and libraries add no noise to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.local.broker import Broker
from deploy.local.node import Node
from registry.log.contract import Unreachable
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from tests.support.running import Registry, free_port, until

ENDED_S = 30.0
NOISE = ("Task was destroyed", "Unclosed", "Traceback")


@pytest.fixture
def flags(kafka: Broker, request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return flags for nodes of one cluster."""
    name = f"mistakes-{request.node.name}"
    return ("--kafka", kafka.address, "--topic", name, "--group", name, "--readers", "1")


@pytest.fixture
def sound(flags: tuple[str, ...], tmp_path: Path) -> Iterator[Registry]:
    """Start a node without mistakes."""
    node = Registry(tmp_path / "sound", *flags).wait()
    try:
        yield node
    finally:
        node.kill()


def refusal(node: Registry) -> str:
    """Return the output of a node that refuses to start."""
    try:
        assert node.process.wait(ENDED_S) == 1
        assert not [noise for noise in NOISE if noise in node.output], node.output
        return node.output.rpartition("registrar: ")[2]
    finally:
        node.kill()


def test_a_folder_of_a_cluster_without_its_brokers_is_reported(sound: Registry) -> None:
    assert sound.stop() == 0
    said = refusal(Registry(sound.data, "--readers", "1"))
    assert "was built from the topic mistakes-" in said
    assert "give kafka = HOST:PORT" in said


def test_a_second_node_in_a_folder_is_reported(sound: Registry, flags: tuple[str, ...]) -> None:
    assert "give each node its own folder (data)" in refusal(Registry(sound.data, *flags))


def test_a_peer_port_that_is_taken_is_reported(flags: tuple[str, ...], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refusal(Registry(tmp_path / "data", *flags, "--peer-listen", address))
    assert said == f"cannot serve peers at {address}: Address already in use; see peer_listen\n"


def test_an_address_that_another_node_had_first_is_reported_and_that_node_stays_across_a_restart(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    rightful, intruder = (Node(tmp_path / name, [*flags, "--advertise", address]) for name in "ab")
    told = f"(which had it first) both advertise {address}: give each an address of its own with --advertise"

    def kept_out() -> bool:
        status, body = intruder.ask("/health/ready")
        return status == 503 and told in body.decode()

    with ExitStack() as stack:
        for node in (rightful, intruder):
            stack.callback(node.stop)
        rightful.start().wait()
        until(lambda: rightful.role == "primary", ENDED_S, "the first to write")
        intruder.start()
        until(kept_out, ENDED_S, "the second to say why it is not ready")
        assert told in intruder.status()["election"]
        (line,) = (line for line in intruder.output.splitlines() if line.endswith(told))
        assert " warning " in line
        assert rightful.stop() == 0
        until(lambda: intruder.role == "primary", ENDED_S, "the second to be taken while it is alone")
        rightful.start().wait()
        until(kept_out, ENDED_S, "the second to be kept out again")
        until(lambda: rightful.role == "primary", ENDED_S, "the first to write again")


def test_tls_with_a_listener_without_it_is_reported(kafka: Broker) -> None:
    with pytest.raises(Unreachable, match="see kafka_security_protocol"):
        KafkaLog(
            Security(security_protocol="SSL"), kafka.address, "schemas",
            transactional_id="x", append_timeout_s=1.0, start_timeout_s=2.0,
        )  # fmt: skip
