"""Tokens of OAUTHBEARER: bounded requests to a token endpoint, and what AWS's signer makes."""

from __future__ import annotations

import asyncio
import base64
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from registry.log.kafka.security import Security
from registry.log.kafka.token_endpoint import expiry_of, fetch_token
from registry.log.kafka.tokens import Token, TokenRefused, TokenSource, TokenUnavailable, sign_token
from tests.support.certificates import Authority
from tests.support.running import ROOT
from tests.support.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenEndpoint]:
    folder = tmp_path_factory.mktemp("tokens")
    authority = Authority()
    authority.write(folder, "ca")
    issued = authority.issue()
    (folder / "server.pem").write_bytes(issued.key_pem() + issued.pem)
    with TokenEndpoint(folder, certificate=str(folder / "server.pem")) as running:
        yield running


@pytest.fixture
def security(endpoint: TokenEndpoint) -> Security:
    endpoint.answer()
    return client_of(endpoint, https_ca_location=str(endpoint.folder / "ca.pem"))


def client_of(endpoint: TokenEndpoint, **others: str) -> Security:
    return Security(
        sasl_oauthbearer_token_endpoint_url=endpoint.url,
        sasl_oauthbearer_client_id=CLIENT_ID,
        sasl_oauthbearer_client_secret=CLIENT_SECRET,
        **others,
    )


def test_a_token_is_fetched_over_tls_with_its_lifetime(security: Security) -> None:
    token = fetch_token(security)
    assert token.lifetime_s == 300
    assert expiry_of(token.text) is not None
    assert token.text not in repr(token)


def test_an_endpoint_of_an_unknown_authority_names_the_ca(endpoint: TokenEndpoint) -> None:
    with pytest.raises(TokenUnavailable, match=r"is not trusted: .*; see kafka_https_ca_location"):
        fetch_token(client_of(endpoint))


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (400, {"error": "invalid_scope"}, TokenRefused, "invalid_scope; see kafka_sasl_oauthbearer_scope"),
        (401, {}, TokenRefused, "status 401; see kafka_sasl_oauthbearer_client_id"),
        (403, {"error": "a\nb", "error_description": "c" * 999}, TokenRefused, "a b: ccc"),
        (404, {}, TokenUnavailable, "status 404; see kafka_sasl_oauthbearer_token_endpoint_url"),
        (200, {}, TokenUnavailable, "answered without an access_token"),
        (200, {"access_token": "a b"}, TokenUnavailable, "answered without an access_token"),
        (200, {"access_token": "a" * 300_000}, TokenUnavailable, "its answer is longer than 262144 bytes"),
    ],
)
def test_every_other_answer_names_a_setting(
    endpoint: TokenEndpoint, security: Security, status: int, body: object, kind: type, said: str
) -> None:
    endpoint.answer(status=status, body=body)
    with pytest.raises(kind) as caught:
        fetch_token(security)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500
    assert CLIENT_SECRET not in str(caught.value)


def test_an_endpoint_that_sends_its_answer_too_slowly_is_given_up() -> None:
    """A byte now and then must not make the whole answer last longer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def drip() -> None:
            # The client closes the connection when it gives up.
            with closing(server.accept()[0]) as client, suppress(ConnectionError):
                while not stop.wait(0.05):
                    client.sendall(b"H")

        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/token"
        with pytest.raises(TokenUnavailable, match="it did not answer in time"):
            fetch_token(Security(sasl_oauthbearer_token_endpoint_url=url), timeout_s=0.5)
        stop.set()
        dripping.join()


def test_logins_at_the_same_time_share_a_token_and_a_refused_one_is_replaced() -> None:
    made: list[Token] = []
    begun = threading.Event()

    def fetch() -> Token:
        begun.wait()
        made.append(Token(f"token-{len(made)}", 300.0))
        return made[-1]

    async def log_in() -> None:
        source = TokenSource(fetch, {})
        waiting = [asyncio.ensure_future(source.token()) for _ in range(5)]
        waiting[0].cancel()
        begun.set()
        assert await asyncio.gather(*waiting[1:]) == ["token-0"] * 4
        assert await source.token() == "token-0"
        source.discard("token-0")
        assert await source.token() == "token-1"

    asyncio.run(log_in())


def test_while_the_endpoint_is_away_the_token_is_used_until_it_expires() -> None:
    tokens = [Token("first", 300.0, received_at=0.0)]

    def fetch() -> Token:
        if not tokens:
            raise TokenUnavailable("away")
        return tokens.pop()

    async def log_in() -> None:
        source = TokenSource(fetch, {})
        assert await source.token() == "first"
        with pytest.raises(TokenUnavailable, match="away"):
            await source.token()

    asyncio.run(log_in())


def test_a_token_of_msk_iam_is_a_presigned_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret key")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    token = sign_token(Security(sasl_aws_region="eu-west-1"))
    url = urlsplit(base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode())
    query = parse_qs(url.query)
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith("AKIAEXAMPLE/")
    assert "/eu-west-1/kafka-cluster/aws4_request" in query["X-Amz-Credential"][0]
    # The signer rounds to whole seconds.
    assert float(query["X-Amz-Expires"][0]) - 5 < token.lifetime_s <= float(query["X-Amz-Expires"][0])


def test_msk_iam_without_a_region_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(TokenUnavailable, match="see kafka_sasl_aws_region"):
        sign_token(Security())


PACKAGES = {
    "AWS_MSK_IAM": ("aws_msk_iam_sasl_signer", "aws-msk-iam-sasl-signer-python", "kafka-registrar[aws]"),
    "GSSAPI": ("gssapi", "gssapi", "kafka-registrar[kerberos]"),
}


@pytest.mark.parametrize("mechanism", PACKAGES)
def test_a_mechanism_without_its_package_says_how_to_install_it(mechanism: str) -> None:
    """In a process of its own, in which the package cannot be found."""
    module, package, extra = PACKAGES[mechanism]
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from registry.log.kafka.broker_connection import Login\n"
        "from registry.log.kafka.security import Security\n"
        f"Login(Security(security_protocol='SASL_SSL', sasl_mechanism={mechanism!r}))\n"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert f"the Python package {package}" in ended.stderr
    assert extra in ended.stderr
