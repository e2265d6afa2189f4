"""Warnings about ports that other machines can reach, in ``registrar check-config`` too."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.__main__ import main
from registry.base.config.loading import load
from registry.security.exposure import warnings

ENCRYPT = "http is not encrypted (set listeners to https, tls_certificate and tls_key)"
AUTHENTICATE = (
    "anyone who connects may do everything (set users, jwt_jwks or tls_client_auth = required; and rules)"
)
AUTHORISE = "everyone who authenticates may do everything (set rules)"
PEERS = (
    "anyone who connects may write (set peer_secret, or peer_tls_certificate, peer_tls_key and peer_tls_ca)"
)
OUTSIDE = "http://0.0.0.0:8081"
HTTPS = {"tls_certificate": __file__, "tls_key": __file__}
USERS = {"users": __file__}
RULES = USERS | {"rules": __file__}
KAFKA = {"kafka": "a:1"}


def warned(given: dict[str, str]) -> list[str]:
    return warnings(load(given).settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost", "LOCALHOST"])
def test_ports_on_loopback_need_no_protection(host: str) -> None:
    assert warned(KAFKA | {"listen": f"{host}:8081", "peer_listen": f"{host}:8082"}) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.0.0.1", "registry.example", "127.example"])
def test_one_line_says_all_that_the_http_api_lacks(host: str) -> None:
    assert warned({"listen": f"{host}:8081"}) == [
        f"other machines can reach http://{host}:8081: {ENCRYPT}; {AUTHENTICATE}"
    ]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (USERS, [ENCRYPT, AUTHORISE]),
        (RULES, [ENCRYPT]),
        (HTTPS | {"listeners": "https://0.0.0.0:8443"}, [AUTHENTICATE]),
        (HTTPS | USERS | {"listeners": "https://0.0.0.0:8443"}, [AUTHORISE]),
        (HTTPS | RULES | {"listeners": "https://0.0.0.0:8443"}, []),
        (HTTPS | RULES | {"listeners": "http://127.0.0.1:8081,https://0.0.0.0:8443"}, []),
        (HTTPS | RULES | {"listeners": "https://127.0.0.1:8443,http://0.0.0.0:8081"}, [ENCRYPT]),
        (
            HTTPS | {"listeners": "https://a:1", "tls_client_auth": "wanted", "tls_client_ca": __file__},
            [AUTHENTICATE],
        ),
        (
            HTTPS | {"listeners": "https://a:1", "tls_client_auth": "required", "tls_client_ca": __file__},
            [AUTHORISE],
        ),
    ],
)
def test_only_what_is_missing_is_named(given: dict[str, str], missing: list[str]) -> None:
    given = given if "listeners" in given else given | {"listen": "0.0.0.0:8081"}
    assert [each.split(": ", 1)[1] for each in warned(given)] == (["; ".join(missing)] if missing else [])


def test_all_reachable_listeners_are_named() -> None:
    listeners = "http://127.0.0.1:1,http://a:2,https://b:3"
    (line,) = warned(HTTPS | RULES | {"listeners": listeners})
    assert line == f"other machines can reach http://a:2 and https://b:3: {ENCRYPT}"


def test_a_peer_endpoint_needs_the_secret_or_certificates(tmp_path: Path) -> None:
    line = f"other machines can reach the peer endpoint on 0.0.0.0: {PEERS}"
    outside = {"peer_listen": "0.0.0.0:8082"}
    secret = tmp_path / "secret"
    secret.write_text("a secret of the tests\n")
    certificates = dict.fromkeys(("peer_tls_certificate", "peer_tls_key", "peer_tls_ca"), __file__)
    assert warned(KAFKA | outside) == [line]
    # By default it is on the host of the HTTP API.
    assert line in warned(KAFKA | {"listen": "0.0.0.0:8081"})
    assert warned(KAFKA | outside | {"peer_secret": "a secret of the tests"}) == []
    assert warned(KAFKA | outside | {"peer_secret_file": str(secret)}) == []
    assert warned(KAFKA | outside | certificates) == []


def test_check_config_prints_the_warnings_and_accepts_the_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check-config", "--listen", "0.0.0.0:8081"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"registrar: warning: other machines can reach {OUTSIDE}: {ENCRYPT}; {AUTHENTICATE}"
    ]
    assert main(["check-config"]) == 0
    assert capsys.readouterr().err == ""
