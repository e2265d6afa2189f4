"""Credentials of registries: for the right one, and for no other."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from registry.cli.client.addresses import FROM, TO, parse_addresses
from registry.cli.client.resources import BadAddress

DEV, PROD = "http://dev:8081", "https://prod"


def basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


def sent(url: str, side: str, **environment: str) -> list[str | None]:
    found = parse_addresses(url, environment, side)
    return [each.credentials.header if each.credentials else None for each in found]


def test_each_of_two_registries_gets_its_own_credentials() -> None:
    variables = {"REGISTRAR_USER_FROM": "a", "REGISTRAR_PASSWORD_FROM": "1", "REGISTRAR_TOKEN_TO": "t"}
    assert sent(DEV, FROM, **variables) == [basic("a:1")]
    assert sent(PROD, TO, **variables) == ["Bearer t"]
    assert sent(DEV, "", **variables) == [None]


def test_of_two_registries_only_the_usual_one_gets_the_usual_credentials() -> None:
    variables = {"REGISTRAR_USER": "a:1", "REGISTRAR_URL": "http://other:8081, dev:8081/"}
    assert sent(DEV, FROM, **variables) == [basic("a:1")]
    assert sent(PROD, TO, **variables) == [None]
    assert sent("http://dev:8082,http://dev:8081,https://dev:8081", TO, **variables) == [
        None, basic("a:1"), None,
    ]  # fmt: skip
    assert sent(PROD, TO, REGISTRAR_TOKEN="t") == [None]
    assert sent(PROD, "", REGISTRAR_TOKEN="t") == ["Bearer t"]
    assert sent(DEV, FROM, **variables, REGISTRAR_USER_FROM="b:2") == [basic("b:2")]
    assert sent("http://c:3@dev:8081", FROM, **variables, REGISTRAR_USER_FROM="b:2") == [basic("c:3")]


def test_a_file_names_credentials_by_host(tmp_path: Path) -> None:
    path = tmp_path / "netrc"
    path.write_text("machine dev login a password 1\nmachine prod login b password 2\n")
    path.chmod(0o600)
    assert sent(DEV, FROM, NETRC=str(path), REGISTRAR_USER="x:y") == [basic("a:1")]
    assert sent(PROD, TO, NETRC=str(path), REGISTRAR_USER="x:y") == [basic("b:2")]


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"REGISTRAR_USER_TO": "a:b", "REGISTRAR_TOKEN_TO": "c"}, "REGISTRAR_TOKEN_TO and REGISTRAR_USER_TO"),
        ({"REGISTRAR_USER_TO": "a", "REGISTRAR_PASSWORD": "b"}, "set REGISTRAR_PASSWORD_TO"),
        ({"REGISTRAR_TOKEN_TO": "a b"}, "REGISTRAR_TOKEN_TO is empty or contains characters"),
    ],
)
def test_unusable_credentials_are_identified_by_their_names(variables: dict[str, str], told: str) -> None:
    with pytest.raises(BadAddress, match=told):
        parse_addresses(PROD, variables, TO)
