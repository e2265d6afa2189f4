"""Logins at real brokers: what works goes on working, and what is refused names the setting to look at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.process import free_port, until
from election.kafka.wire import Coordinator, RequestFailed, Timeouts
from registry.domain.log_format.records import Entry
from registry.log.contract import LogError
from registry.log.kafka import refused_login
from registry.log.kafka.broker_connection import IF_IT_PERSISTS, login_with
from registry.log.kafka.connection import Purpose
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from tests.contract.log.conftest import Opened
from tests.support.certificates import Authority
from tests.support.kafka_topics import make_topic
from tests.support.secured_broker import PASSWORD, SESSION_S, SecuredBroker
from tests.support.token_endpoint import TokenEndpoint

ONE = [Entry(b"k", b"1")]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenEndpoint]:
    with TokenEndpoint(tmp_path_factory.mktemp("tokens")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("secured")
    with SecuredBroker(folder, Authority(plain=True), endpoint) as running:
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


def test_a_password_is_read_from_its_file_for_each_login(
    broker: SecuredBroker, opened: Opened, tmp_path: Path
) -> None:
    renewed = tmp_path / "password"
    renewed.write_text(f"{PASSWORD}\n")
    login = broker.for_users(sasl_password="the former one", sasl_password_file=str(renewed))
    log = opened(broker.users, make_topic(broker.address), login)
    log.claim()
    assert log.append(ONE) == 0


def refusal(broker: SecuredBroker, address: str, security: Security) -> str:
    """Return the message of a refused start, which must also be that of the election."""

    async def in_election() -> str:
        connect, timeouts = login_with(security).connection, Timeouts(session_s=30.0, rebalance_s=30.0)
        with pytest.raises(RequestFailed) as caught:
            await Coordinator.find(address, connect, "group", timeouts)
        return in_time(str(caught.value))

    text: str = until(lambda: in_time(refused_start(address, security)), 30, "the login to be refused")
    assert until(lambda: asyncio.run(in_election()), 30, "the election's refusal").endswith(f": {text}")
    return text


def refused_start(address: str, security: Security) -> str:
    """Return what a refused start says of this address; empty if a busy broker did not answer in time."""
    options = {"transactional_id": "", "append_timeout_s": 1.0, "start_timeout_s": 0.0}
    with pytest.raises(LogError) as caught:
        KafkaLog(security, address, "schemas", **options)
    return str(caught.value).partition(f"{address}: ")[2]


def in_time(text: str) -> str:
    """Return the text; empty if a busy broker did not say in time what its listener expects, or anything."""
    return "" if text.endswith((f"{IF_IT_PERSISTS})", "it took too long")) else text


MISMATCHES = {
    "SASL at a listener without it": ("address", "users", "uses no SASL", "PLAINTEXT"),
    "no SASL at a listener with it": ("users", "plain", "uses SASL (PLAIN)", "SASL_PLAINTEXT"),
    "TLS at a listener without it": ("address", "tls", "uses no TLS", "PLAINTEXT"),
    "no TLS at a listener with it": ("tls", "plain", "uses TLS", "SSL"),
    "TLS without SASL at a listener with it": ("users", "tls", "uses no TLS", "SASL_PLAINTEXT"),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_a_listener_of_another_protocol_is_distinguished(broker: SecuredBroker, case: str) -> None:
    listener, login, uses, protocol = MISMATCHES[case]
    logins = {"users": broker.for_users(), "tls": broker.for_tls(), "plain": Security(client_id="plain")}
    # A login of its own, because listeners that have worked are not told apart again.
    security = replace(logins[login], client_id=f"mismatch-{listener}-{login}")
    text = refusal(broker, getattr(broker, listener), security)
    assert text == (
        f"this listener {uses}, but kafka_security_protocol = {security.security_protocol}; "
        f"see kafka_security_protocol ({protocol} is its protocol)"
    )


def test_a_listener_that_said_too_late_what_it_expects_is_distinguished_by_the_next_attempt(
    broker: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    security = Security(client_id="mismatch-late")
    with monkeypatch.context() as busy:
        busy.setattr(refused_login, "PROBE_TIMEOUT_S", 0.0)
        late = until(lambda: refused_start(broker.users, security), 30, "the login to be refused")
        assert late.endswith(f"it hangs up on PLAINTEXT: see kafka_security_protocol, {IF_IT_PERSISTS})")
    assert refusal(broker, broker.users, security).startswith("this listener uses SASL (PLAIN)")


def test_a_wrong_password_names_its_settings(broker: SecuredBroker) -> None:
    text = refusal(broker, broker.users, broker.for_users(sasl_password="wrong"))
    assert text == (
        "Authentication failed: Invalid username or password; see kafka_sasl_username and kafka_sasl_password"
    )


def test_a_mechanism_that_is_not_offered_names_those_that_are(broker: SecuredBroker) -> None:
    text = refusal(broker, broker.users, broker.for_users(sasl_mechanism="SCRAM-SHA-512"))
    assert text == (
        "it does not offer the SASL mechanism SCRAM-SHA-512 here, but PLAIN; see kafka_sasl_mechanism"
    )


def test_a_broker_of_another_authority_names_the_ca(broker: SecuredBroker, tmp_path: Path) -> None:
    other = Authority("Other CA").write(tmp_path, "other")
    text = refusal(broker, broker.tls, broker.for_tls(ssl_ca_location=str(other)))
    assert text.startswith("its certificate is not trusted: ")
    assert text.endswith("see kafka_ssl_ca_location")


def test_a_certificate_of_another_host_names_the_check(broker: SecuredBroker) -> None:
    text = refusal(broker, broker.tls.replace("127.0.0.1", "localhost"), broker.for_tls())
    assert text.startswith("its certificate is for another host: ")
    assert text.endswith("see kafka and kafka_ssl_endpoint_identification_algorithm")


def test_a_missing_client_certificate_names_its_settings(broker: SecuredBroker) -> None:
    text = refusal(broker, broker.mutual, broker.for_tls())
    assert text.startswith("its TLS demands a client certificate")
    assert text.endswith("see kafka_ssl_certificate_location and kafka_ssl_key_location")


def test_a_client_certificate_of_another_authority_names_its_settings(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    certificate, key = map(str, Authority("Other CA").issue("CN=client").write(tmp_path, "client"))
    security = broker.for_tls(ssl_certificate_location=certificate, ssl_key_location=key)
    text = refusal(broker, broker.mutual, security)
    assert text.startswith("its TLS refuses the client certificate")
    assert text.endswith("see kafka_ssl_certificate_location and kafka_ssl_key_location")


def test_a_token_that_has_expired_is_reported(broker: SecuredBroker, endpoint: TokenEndpoint) -> None:
    endpoint.answer(now=1_700_000_000, lifetime_s=300)
    text = refusal(broker, broker.tokens, broker.for_tokens(client_id="expired"))
    assert text == (
        'it refuses the token ({"status":"invalid_token"}, the token expired at 2023-11-14T22:18:20Z); '
        "see kafka_sasl_oauthbearer_token_endpoint_url, kafka_sasl_oauthbearer_scope and the clocks"
    )


def test_a_token_for_others_is_reported(broker: SecuredBroker, endpoint: TokenEndpoint) -> None:
    endpoint.answer(audience="others")
    text = refusal(broker, broker.tokens, broker.for_tokens(client_id="others"))
    assert text.startswith('it refuses the token ({"status":"invalid_token"}); see kafka_sasl_oauthbearer_')


def test_a_token_of_aws_that_the_broker_refuses_names_its_settings(
    broker: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    security = Security(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="AWS_MSK_IAM", sasl_aws_region="eu-west-1"
    )
    text = refusal(broker, broker.tokens, security)
    assert text == (
        'it refuses the token ({"status":"invalid_token"}); '
        "see kafka_sasl_aws_region, and the policy of the AWS credentials"
    )


def test_a_client_that_the_token_endpoint_refuses_names_its_settings(broker: SecuredBroker) -> None:
    text = refusal(broker, broker.tokens, broker.for_tokens(sasl_oauthbearer_client_secret="wrong"))
    assert text == (
        f"the token endpoint {broker.endpoint.url} refused the client: invalid_client: unknown client; "
        "see kafka_sasl_oauthbearer_client_id and kafka_sasl_oauthbearer_client_secret"
    )


def test_a_token_endpoint_that_is_away_names_its_setting(broker: SecuredBroker) -> None:
    url = f"http://127.0.0.1:{free_port()}/token"
    text = refusal(broker, broker.tokens, broker.for_tokens(sasl_oauthbearer_token_endpoint_url=url))
    assert text.startswith(f"the token endpoint {url} cannot be reached: ")
    assert text.endswith("Connection refused; see kafka_sasl_oauthbearer_token_endpoint_url")


def test_a_client_certificate_that_is_renewed_is_used_for_new_connections(
    broker: SecuredBroker, opened: Opened, tmp_path: Path
) -> None:
    certificate, key = map(str, Authority("Other CA").issue("CN=client").write(tmp_path, "client"))
    security = broker.for_tls(ssl_certificate_location=certificate, ssl_key_location=key)
    topic = make_topic(broker.address)
    with pytest.raises(LogError, match="refuses the client certificate"):
        opened(broker.mutual, topic, security)
    Path(certificate).write_text("half of a certificate")
    with pytest.raises(LogError, match="refuses the client certificate"):
        opened(broker.mutual, topic, security)
    broker.authority.issue("CN=client").write(tmp_path, "client")
    log = opened(broker.mutual, topic, security)
    log.claim()
    assert log.append(ONE) == 0


def test_a_key_without_its_password_is_refused_and_nobody_is_asked(
    broker: SecuredBroker, opened: Opened, tmp_path: Path
) -> None:
    client = broker.authority.issue("CN=client")
    certificate, key = client.write(tmp_path, "client")
    key.write_bytes(client.key_pem("secret"))
    security = broker.for_tls(ssl_certificate_location=str(certificate), ssl_key_location=str(key))
    with pytest.raises(LogError, match=r"kafka_ssl_key_location .* cannot be used"):
        opened(broker.mutual, "schemas", security)
    log = opened(broker.mutual, make_topic(broker.address), replace(security, ssl_key_password="secret"))
    log.claim()
    assert log.append(ONE) == 0
