"""Files that settings name: which a start would refuse, in ``registrar check-config``, doctor and metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.__main__ import main
from registry.base.config.loading import load
from registry.cli.doctor import Severity
from registry.cli.doctor.host import examine_host
from registry.security.setting_files import LOOK_EVERY_S, FileChecks, file_errors
from tests.support.certificates import DAY, Authority
from tests.support.running import until
from tests.support.token_issuer import Issuer, IssuerKey

SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
USERS = f"# people\nada:{SECRET}\n"
RULES = '[[allow]]\nprincipal = "ada"\nrole = "admin"\nsubjects = "*"\n'
POLICIES = '[[policy]]\nsubjects = ["*"]\nversions_max = 5\n'


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """Return settings that name a valid file of each kind, in a folder."""
    certificate, key = Authority(days=400).issue(ends=365 * DAY).write(tmp_path, "server")
    keys = json.dumps({"keys": [IssuerKey("one").public()]})
    contents = {"users": USERS, "rules": RULES, "policies": POLICIES, "jwt_jwks": keys}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    named = {name: str(tmp_path / name) for name in contents}
    return named | {
        "listeners": "https://127.0.0.1:8443", "tls_certificate": str(certificate), "tls_key": str(key),
        "jwt_issuer": "https://issuer", "jwt_audience": "registrar", "data": str(tmp_path / "data"),
    }  # fmt: skip


# The setting of the broken file, its content, and what is said of it.
BROKEN = [
    ("users", USERS + "bob:secret\n", "users: {path}, line 3: "),
    ("rules", RULES + "\n[[allow]]\nprincipal = 1\n", "rules: {path}, line 6: "),
    ("rules", "[[allow]\n", "rules: {path}, line 1: is not TOML"),
    ("policies", POLICIES + "versions_max = 6\n", "policies: {path}, line 4: not TOML"),
    (
        "policies",
        POLICIES + "\n[[policy]]\nsubjects = []\n",
        "policies: {path}, line 5: policy 2: subjects is empty",
    ),
    ("jwt_jwks", '{"keys": [\n}', "jwt_jwks: {path}, line 2: is not JSON"),
    ("tls_certificate", "nothing", 'tls_certificate = "{path}": contains no valid PEM certificates'),
    ("tls_key", "nothing", 'tls_key = "{path}": contains no valid PEM private key'),
]


@pytest.fixture
def outgoing(tmp_path: Path) -> dict[str, str]:
    """Return settings that name a valid file for each kind of server that a node connects to."""
    authority = Authority(days=400)
    certificate, key = authority.issue(ends=365 * DAY).write(tmp_path, "client")
    (tmp_path / "encrypted").write_bytes(authority.issue().key_pem("a password"))
    secrets = {"peer_secret_file": "0123456789abcdef\n", "zookeeper_auth_file": "user:password"}
    for name, content in secrets.items():
        (tmp_path / name).write_text(content)
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    # Comments are not ASCII in the bundles of some systems.
    for name in ("kafka_ca", "zookeeper_ca", "https_ca", "webhooks_ca"):
        (tmp_path / name).write_bytes("# Főtanúsítvány\n".encode() + authority.pem)
    return {name: str(tmp_path / name) for name in secrets} | {
        "data": str(tmp_path / "data"), "kafka": "127.0.0.1:9092", "kafka_security_protocol": "SASL_SSL",
        "kafka_sasl_mechanism": "OAUTHBEARER", "kafka_sasl_oauthbearer_client_id": "registrar",
        "kafka_sasl_oauthbearer_client_secret": "secret",
        "kafka_sasl_oauthbearer_token_endpoint_url": "https://127.0.0.1:1/token",
        "kafka_https_ca_location": str(tmp_path / "https_ca"),
        "kafka_ssl_ca_location": str(tmp_path / "kafka_ca"),
        "kafka_ssl_certificate_location": str(certificate), "kafka_ssl_key_location": str(key),
        "election": "zookeeper", "zookeeper": "127.0.0.1:2181/registrar", "zookeeper_tls": "true",
        "zookeeper_tls_ca": str(tmp_path / "zookeeper_ca"), "zookeeper_tls_certificate": str(both),
        "webhooks_ca_file": str(tmp_path / "webhooks_ca"),
    }  # fmt: skip


NO_CERTIFICATES = "{setting}: {path}: contains no valid PEM certificates"
# A file of connections to other servers, another file whose content it gets, and what is said.
BROKEN_OUTGOING = [
    *((name, "peer_secret_file", NO_CERTIFICATES) for name in (
        "kafka_ssl_ca_location", "kafka_ssl_certificate_location", "kafka_https_ca_location",
        "zookeeper_tls_ca", "zookeeper_tls_certificate", "webhooks_ca_file",
    )),
    ("kafka_ssl_key_location", "encrypted", "{setting}: {path}: does not hold the private key of "
        "kafka_ssl_certificate_location, or its password is wrong"),
    ("zookeeper_tls_certificate", "kafka_ca", "{setting}: {path}: does not hold the private key of "
        "zookeeper_tls_certificate, or its password is wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "content", "said"), BROKEN_OUTGOING)
def test_a_broken_file_for_another_server_is_found_before_the_start(
    outgoing: dict[str, str], setting: str, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(outgoing[setting])
    path.write_bytes((path.parent / content).read_bytes())
    assert main(["check-config", *flags(outgoing)]) == 2
    assert f"registrar: {said.format(setting=setting, path=path)}" in capsys.readouterr().err
    assert main(["serve", *flags(outgoing)]) == 1
    assert f"registrar: {said.format(setting=setting, path=path)}" in capsys.readouterr().err


def test_a_file_of_a_secret_that_becomes_empty_is_noticed(outgoing: dict[str, str]) -> None:
    clock = Clock()
    checks = FileChecks(load(flags=outgoing).settings, clock)
    checks.refresh()
    assert checks.problems() == []
    Path(outgoing["zookeeper_auth_file"]).write_text("")
    Path(outgoing["peer_secret_file"]).write_text("short one")
    clock.now += LOOK_EVERY_S
    checks.refresh()
    assert {each.labels[0] for each in checks.samples() if not each.value} == {
        "zookeeper_auth_file", "peer_secret_file"
    }  # fmt: skip
    assert not any("short one" in each for each in checks.problems())
    assert any(str(outgoing["peer_secret_file"]) in each for each in checks.problems())


def test_keys_at_a_url_are_fetched_and_a_start_is_not_refused_for_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Issuer() as issuer:
        given = {"jwt_jwks": issuer.jwks, "jwt_issuer": issuer.url, "jwt_audience": "registrar"}
        settings = load(flags=given).settings
        assert main(["check-config", *flags(given)]) == 0
        assert "no keys can be fetched" not in capsys.readouterr().err
        assert not any("keys" in each.text for each in examine_host(settings))
        clock = Clock()
        checks = FileChecks(settings, clock)

        def valid() -> list[float]:
            clock.now += 60
            checks.refresh()
            return [each.value for each in checks.samples() if each.labels == ("jwt_jwks",)]

        until(lambda: valid() == [1.0], 30, "the keys to be fetched")
        issuer.answer = lambda handler: handler.send_error(503)
        until(lambda: valid() == [0.0], 30, "the failure to be seen")
        (problem,) = checks.problems()
        assert problem == (
            f"jwt_jwks: no keys can be fetched from {issuer.jwks}: the answer is HTTP 503; after a start, no "
            "token would be accepted"
        )
        assert main(["check-config", *flags(given)]) == 0
        assert f"registrar: warning: {problem.partition(';')[0]}" in capsys.readouterr().err
        found = [each for each in examine_host(settings) if "keys" in each.text]
        assert [each.severity for each in found] == [Severity.WARNING]


def flags(given: dict[str, str]) -> list[str]:
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]


@pytest.mark.parametrize(("setting", "content", "said"), BROKEN)
def test_a_broken_file_is_found_before_the_start_with_its_line(
    given: dict[str, str], setting: str, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(given[setting]).write_text(content)
    expected = said.format(path=given[setting])
    assert main(["check-config", *flags(given)]) == 2
    assert f"registrar: {expected}" in capsys.readouterr().err
    errors = [each for each in examine_host(load(flags=given).settings) if each.severity is Severity.ERROR]
    assert [each.about for each in errors] == ["files"]
    assert errors[0].text.startswith(expected)
    assert errors[0].advice


def test_valid_files_are_fine(given: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", *flags(given)]) == 0
    assert "line" not in capsys.readouterr().err
    assert not any(file_errors(load(flags=given).settings).values())
    assert not file_errors(load(flags={}).settings)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_gauge_follows_a_file_that_changes(given: dict[str, str]) -> None:
    clock = Clock()
    checks = FileChecks(load(flags=given).settings, clock)

    def invalid() -> set[str]:
        clock.now += LOOK_EVERY_S
        checks.refresh()
        samples = checks.samples()
        assert {each.labels[0] for each in samples} == {
            "users", "rules", "policies", "jwt_jwks", "tls_certificate", "tls_key"
        }  # fmt: skip
        return {each.labels[0] for each in samples if not each.value}

    assert invalid() == set()
    assert checks.problems() == []
    Path(given["rules"]).write_text("[[allow]\n")
    checks.refresh()
    assert checks.problems() == [], "it looks every few seconds"
    assert invalid() == {"rules"}
    (problem,) = checks.problems()
    assert problem.startswith(f"rules: {given['rules']}, line 1: ")
    assert problem.endswith("; the next start would fail")
    Path(given["rules"]).write_text(RULES)
    Path(given["users"]).unlink()
    assert invalid() == {"users"}
    Path(given["users"]).write_text(USERS)
    assert invalid() == set()


def test_a_long_reason_is_cut(given: dict[str, str]) -> None:
    Path(given["jwt_jwks"]).write_text(json.dumps({"keys": []}))
    long = "x" * 5000
    Path(given["rules"]).write_text(f'[[allow]]\nprincipal = "a"\nsubjects = "*"\n{long} = 1\n')
    checks = FileChecks(load(flags=given).settings)
    checks.refresh()
    assert all(len(each) < 400 for each in checks.problems())
    assert len(checks.problems()) == 2
