"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

from deploy.local.broker import Broker
from deploy.local.zookeeper import ZooKeeper
from tests.running import Registry, Served

# The same examples in every run, however busy the machine is; "--hypothesis-profile wide" looks for new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("wide", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what the docs should say instead of comparing"
    )
    parser.addoption(
        "--registry", metavar="URL", help="try the clients against the server at URL instead of ours"
    )
    parser.addoption("--fault-rounds", type=int, default=3, help="rounds of faults by chance")
    parser.addoption("--fault-seed", type=int, help="seed of the first round; by default the time of day")
    parser.addoption("--faults", type=int, default=3, help="faults in a round")
    parser.addoption("--fault-minutes", type=float, default=0.0, help="minutes of load without faults")


@pytest.fixture(scope="session")
def registry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One registry with two readers for every test that keeps to subjects and contexts of its own."""
    if url := request.config.getoption("--registry"):
        yield Served(url.rstrip("/"))
        return
    yield from _running(tmp_path_factory, "--readers", "2")


@pytest.fixture(scope="session")
def registry_without_readers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """As ``registry``, but the node alone serves everything."""
    if request.config.getoption("--registry"):
        pytest.skip("the server that --registry names is one of a kind")
    yield from _running(tmp_path_factory, "--readers", "0")


def _running(tmp_path_factory: pytest.TempPathFactory, *flags: str) -> Iterator[Registry]:
    # Whoever asks it for snapshots wants no processor time spent on them.
    flags = (*flags, "--snapshots-builder", "none")
    running = Registry(tmp_path_factory.mktemp("registry") / "data", *flags).wait()
    yield running
    assert running.stop() == 0, running.output


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One running broker for every test that keeps to topics and groups of its own and leaves it running."""
    # It is frozen at times, and never killed: once thawed, it is let on at once.
    with Broker(tmp_path_factory.mktemp("kafka"), settings={"broker.session.timeout.ms": "60000"}) as broker:
        yield broker


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """One running ZooKeeper for every test that keeps to a chroot of its own and leaves it running."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
