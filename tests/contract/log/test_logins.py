"""Logins at real brokers: what works goes on working, and what is refused names the setting to look at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from registry.domain.log_format.records import Entry
from registry.log.kafka.connection import Purpose
from registry.log.kafka.log import KafkaLog
from tests.certificates import Authority
from tests.contract.log.conftest import Opened
from tests.kafka_topics import make_topic
from tests.secured_broker import SESSION_S, SecuredBroker
from tests.token_endpoint import TokenEndpoint

ONE = [Entry(b"k", b"1")]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenEndpoint]:
    with TokenEndpoint(tmp_path_factory.mktemp("tokens")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("secured")
    with SecuredBroker(folder, Authority(), endpoint) as running:
        yield running


@pytest.fixture(autouse=True)
def _as_usual(endpoint: TokenEndpoint) -> None:
    endpoint.answer()


def test_a_token_of_the_endpoint_is_a_login(broker: SecuredBroker, opened: Opened) -> None:
    security = broker.for_tokens(sasl_oauthbearer_scope="schemas", sasl_oauthbearer_extensions="a=b, c=d")
    log = opened(broker.tokens, make_topic(broker.address), security)
    log.claim()
    assert log.append(ONE) == 0
    assert log.wait(0, 30)
    assert log.read(0, 1, 1).records[0].value == b"1"


def times_opened(log: KafkaLog, address: str) -> int:
    """Return how often the connection for appends was opened."""
    host, port = address.split(":")
    return log._connections.open_count(host, int(port), Purpose.APPEND)


def append_until(log: KafkaLog, condition: Callable[[], bool]) -> None:
    """Append one record after another, each of which must succeed."""
    log.claim()
    appended = 0
    while not condition():
        assert log.append(ONE) == appended
        appended += 1


def test_tokens_are_renewed_and_connections_log_in_again_with_them(
    broker: SecuredBroker, endpoint: TokenEndpoint, opened: Opened
) -> None:
    endpoint.answer(lifetime_s=6.0)
    before = endpoint.issued
    log = opened(broker.tokens, make_topic(broker.address), broker.for_tokens(client_id="renewing"))
    append_until(log, lambda: endpoint.issued >= before + 3)
    assert times_opened(log, broker.tokens) == 1


def test_a_session_that_the_broker_limits_is_renewed_on_the_same_connection(
    broker: SecuredBroker, opened: Opened
) -> None:
    log = opened(broker.users, make_topic(broker.address), broker.for_users())
    end = time.monotonic() + 2 * SESSION_S
    append_until(log, lambda: time.monotonic() > end)
    assert times_opened(log, broker.users) == 1
