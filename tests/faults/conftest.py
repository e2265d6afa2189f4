"""One cluster for all faults that it survives; other tests do not share what is broken here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.broker import Broker

from .rig import Rig
from .rounds import Soak

# What a fault may make processes log: errors of any kind, but none that nobody expected.
WITHOUT_TRACEBACK = r"(?s)\A(?!.*Traceback)"


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.logs_errors(WITHOUT_TRACEBACK))


SECRET = "a secret that the nodes share"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker"), proxies=3) as running:
        yield running


@pytest.fixture(scope="session")
def rig(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    with Rig(
        tmp_path_factory.mktemp("nodes"),
        "--peer-secret",
        SECRET,
        "--request-timeout-s",
        "20",
        broker=broker,
        disks=True,
    ) as running:
        running.histories = request.config.getoption("--histories") or running.histories
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault_round" in metafunc.fixturenames:
        metafunc.parametrize("fault_round", range(metafunc.config.getoption("--fault-rounds")))


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> Soak:
    option = request.config.getoption
    seed = option("--fault-seed")
    return Soak(
        rounds=option("--fault-rounds"),
        faults=option("--faults"),
        seed=time.time_ns() // 1_000_000_000 if seed is None else seed,
        minutes=option("--fault-minutes"),
    )


@pytest.fixture
def partition(broker: Broker) -> Path:
    """Return the folder of the log on the broker's disk."""
    return broker.folder / "data" / "_schemas-0"
