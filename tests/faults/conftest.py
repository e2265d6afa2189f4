"""One cluster for all faults that it survives; what is broken here is not what other tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.broker import Broker

from .rig import Rig

SECRET = "a secret that the nodes share"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker"), proxies=3) as running:
        yield running


@pytest.fixture(scope="session")
def rig(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with Rig(
        tmp_path_factory.mktemp("nodes"), "--peer-secret", SECRET, "--request-timeout-s", "12", broker=broker
    ) as running:
        yield running


@pytest.fixture
def partition(broker: Broker) -> Path:
    """The log on the broker's disk."""
    return broker.folder / "data" / "_schemas-0"
