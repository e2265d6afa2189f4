"""Clients: each test has its own subjects on the one running registry."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.clients.java_client import Java, JavaClient
from tests.clients.javascript import JavaScript
from tests.clients.secured import Secured
from tests.support.running import Served
from tests.support.token_endpoint import TokenEndpoint

_numbers = itertools.count()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a topic that no other test uses."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower())}-{next(_numbers)}"


def _javascript(script: str, registry: Served) -> Iterator[JavaScript]:
    client = JavaScript(script, registry.url)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="session")
def kafkajs(registry: Served) -> Iterator[JavaScript]:
    """Start a client of @kafkajs/confluent-schema-registry."""
    yield from _javascript("kafkajs.js", registry)


@pytest.fixture(scope="session")
def confluent_javascript(registry: Served) -> Iterator[JavaScript]:
    """Start a client of @confluentinc/schemaregistry."""
    yield from _javascript("confluent.js", registry)


@pytest.fixture(scope="session")
def java() -> Iterator[Java]:
    """Start the process of the Java clients."""
    with closing(Java()) as process:
        yield process


@pytest.fixture
def confluent_java(java: Java, registry: Served) -> JavaClient:
    """Return a client of io.confluent:kafka-schema-registry-client that remembers no schemas."""
    return java.open(registry.url)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Start a registry that only serves clients with a name, over TLS."""
    folder = tmp_path_factory.mktemp("secured")
    with TokenEndpoint(folder / "tokens") as tokens:
        site = Secured(folder, tokens)
        with site.serve():
            yield site
