"""Authentication by a real server."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.process.raw import RawClient
from tests.support.running import BOTH, PATIENT, Registry, until
from tests.support.token_issuer import AUDIENCE, Issuer, IssuerKey, claims, signed

# Of the password "secret", with parameters that make it fast.
SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
ADMIN, ALICE = ("admin", "secret"), ("alice", "secret")
STRING = json.dumps({"schema": '"string"'})
# Until a node has looked at its files again, on a busy machine.
CHECKED_S = 60.0


class Site(NamedTuple):
    registry: Registry
    issuer: Issuer
    users: Path
    url: str

    def write_users(self, *names: str) -> None:
        """Replace the file of users, as ``registrar user`` does."""
        new = self.users.with_name("new")
        new.write_text("".join(f"{name}:{SECRET}:team\n" for name in names))
        new.replace(self.users)

    def status(
        self, target: str = "/schemas/ids/1", *, auth: tuple[str, str] | None = None, token: str = ""
    ) -> int:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.get(self.url + target, auth=auth, headers=headers, timeout=PATIENT).status_code


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("authentication")
    users = folder / "users"
    users.write_text(f"admin:{SECRET}\n")
    policies = folder / "policies.toml"
    policies.write_text('[[policy]]\nsubjects = ["ruled-*"]\nregister = ["user:admin"]\n')
    with Issuer() as issuer:
        registry = Registry(
            folder / "data",
            *("--policies", str(policies)),
            *("--readers", "2", "--users", str(users), "--jwt-jwks", issuer.jwks),
            *("--jwt-issuer", issuer.url, "--jwt-audience", AUDIENCE, "--jwt-clock-skew-s", "0"),
        )
        registry.headers["Authorization"] = "Basic " + base64.b64encode(b"admin:secret").decode()
        try:
            registry.wait()
            known = f"{registry.url}/subjects/known/versions"
            httpx.post(known, content=STRING, auth=ADMIN, timeout=PATIENT).raise_for_status()
            yield Site(registry, issuer, users, registry.url)
            assert registry.stop() == 0, registry.output
        finally:
            registry.kill()
    assert "Traceback" not in registry.output


def test_only_who_authenticates_gets_an_answer(site: Site) -> None:
    refused = httpx.get(site.url + "/schemas/ids/1", timeout=PATIENT)
    assert refused.status_code == 401
    assert refused.json() == {"error_code": 401, "message": "Unauthorized"}
    assert refused.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    assert refused.headers.get_list("www-authenticate") == [
        'Basic realm="registrar", charset="UTF-8"',
        'Bearer realm="registrar"',
    ]
    assert httpx.get(site.url + "/me", timeout=PATIENT).json()["signIn"] == {
        "required": True, "basic": True, "bearer": True, "certificate": False, "oidc": None
    }  # fmt: skip
    mine = httpx.get(site.url + "/me", headers={"authorization": f"Bearer {site.issuer.token()}"}).json()
    assert (mine["principal"], mine["method"]) == ("alice", "bearer")
    assert site.status(auth=("admin", "Secret")) == 401
    assert site.status(auth=("nobody", "secret")) == 401
    for _ in range(6):  # by all processes, and by the shortcuts of readers too
        assert site.status(auth=ADMIN) == 200
        assert site.status("/subjects/known/versions/latest", auth=ADMIN) == 200
        assert site.status("/subjects", token=site.issuer.token()) == 200
        assert site.status() == 401
    wrong = ("admin", "wrong")
    repeated = httpx.post(f"{site.url}/subjects/known/versions", content=STRING, auth=wrong, timeout=PATIENT)
    assert repeated.status_code == 401
    assert {site.status(path) for path in ("/health/live", "/health/ready", "/metrics")} == {200}


def test_a_token_with_the_name_of_a_user_is_another_principal(site: Site) -> None:
    token = {"authorization": f"Bearer {site.issuer.token(sub='admin')}"}
    target = f"{site.url}/subjects/ruled-value/versions"
    refused = httpx.post(target, content=STRING, headers=token, timeout=PATIENT)
    assert (refused.status_code, refused.json()["error_code"]) == (403, 40381)
    assert httpx.post(target, content=STRING, auth=ADMIN, timeout=PATIENT).status_code == 200
    both = [
        httpx.get(f"{site.url}/me", **each, timeout=PATIENT).json()
        for each in ({"headers": token}, {"auth": ADMIN})
    ]
    assert [(each["principal"], each["kind"]) for each in both] == [("admin", "token"), ("admin", "user")]


def test_one_connection_serves_several_principals(site: Site) -> None:
    """A decision for one request says nothing about the next one of its connection."""
    with httpx.Client(base_url=site.url, timeout=PATIENT) as client:
        for _ in range(20):
            assert client.get("/schemas/ids/1", auth=ADMIN).status_code == 200
            assert client.get("/schemas/ids/1").status_code == 401
            assert client.get("/schemas/ids/1", auth=("nobody", "secret")).status_code == 401


def test_requests_of_one_connection_are_counted_for_the_principals_that_sent_them(site: Site) -> None:
    """As those of a proxy that keeps its connections, in turns and ahead of the answers."""
    target = f"{site.url}/subjects/proxied/versions"
    httpx.post(target, content=STRING, auth=ADMIN, timeout=PATIENT).raise_for_status()
    basic = site.registry.headers["Authorization"]
    tokens = [f"Bearer {site.issuer.token(sub=name)}" for name in ("ann", "bob", "cleo", "dan", "eve")]
    sent = [
        b"GET /subjects/proxied/versions/1 HTTP/1.1\r\nhost: localhost\r\nuser-agent: proxy\r\n"
        b"authorization: %b\r\n\r\n" % each.encode()
        for each in (basic, *tokens)
    ]
    with RawClient(site.registry.port) as client:
        for _ in range(4):
            for at, each in enumerate(sent):  # the first ones most often
                for request in sent[: at + 1]:
                    assert client.send(request).reply().status == 200
                assert client.send(each + sent[0]).reply().status == client.reply().status == 200
    wanted = {"ann": 24, "bob": 20, "cleo": 16, "dan": 12, "eve": 8, "admin": 52}

    def counted() -> dict[str, int]:
        found = httpx.get(f"{site.url}/usage/subjects/proxied/askers", auth=ADMIN, timeout=PATIENT).json()
        return {each["principal"]: each["requests"] for each in found["askers"] if each["agent"] == "proxy"}

    until(lambda: sum(counted().values()) >= sum(wanted.values()), 60, "the counts of the reader")
    assert counted() == wanted


def test_a_user_is_added_and_removed_without_a_restart(site: Site) -> None:
    site.write_users("admin", "alice")
    until(lambda: all(site.status(auth=ALICE) == 200 for _ in BOTH), 10.0, "the new user")
    site.write_users("admin")
    until(lambda: all(site.status(auth=ALICE) == 401 for _ in BOTH), 10.0, "the user to be refused")
    assert site.status(auth=ADMIN) == 200


@pytest.mark.logs_errors("expected NAME:HASH")
def test_a_broken_file_of_users_changes_nothing(site: Site) -> None:
    valid = site.users.read_text()
    site.users.write_text(valid + "nonsense\n")
    reason = (
        f"{site.users}, line 2: expected NAME:HASH or NAME:HASH:GROUP,GROUP; keeping the previous content"
    )
    until(lambda: reason in site.registry.output, 10.0, "the broken line to be logged")
    assert site.status(auth=ADMIN) == 200
    until(lambda: valid_files(site).get("users") == 0, CHECKED_S, "the node to warn")
    warning = f"users: {reason.partition(';')[0]}; the next start would fail"
    assert warning in httpx.get(f"{site.url}/node", auth=ADMIN, timeout=PATIENT).json()["warnings"]
    site.users.write_text(valid)
    until(lambda: set(valid_files(site).values()) == {1}, CHECKED_S, "the warning to end")


def valid_files(site: Site) -> dict[str, float]:
    text = httpx.get(f"{site.url}/metrics", timeout=PATIENT).text
    found = re.findall(r'^registrar_file_valid\{setting="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def test_tokens_of_others_and_of_the_past_are_refused(site: Site) -> None:
    issuer = site.issuer
    now = claims("")["iat"]
    assert site.status(token=issuer.token()) == 200
    for token in (
        issuer.token(exp=now - 1),
        issuer.token(aud="elsewhere"),
        issuer.token(iss="https://elsewhere.example"),
        signed(IssuerKey("first"), claims(issuer.url)),
        signed(IssuerKey("other"), claims(issuer.url)),
        ".".join([*issuer.token().split(".")[:2], ""]),
        "e30.e30.",
    ):
        assert site.status(token=token) == 401
    short = issuer.token(exp=now + 4)
    until(lambda: site.status(token=short) == 401, 20.0, "the token to be refused when it is sent again")


def test_keys_are_rotated_without_a_restart(site: Site) -> None:
    before = site.issuer.token()
    assert site.status(token=before) == 200
    site.issuer.rotate(IssuerKey("second"))

    def rotated() -> bool:
        after = site.issuer.token()
        # Each reader fetches the keys when it gets the first token with the new one.
        return all((site.status(token=after), site.status(token=before)) == (200, 401) for _ in BOTH)

    until(rotated, 30.0, "the new key to be fetched")


@pytest.mark.parametrize(
    "value",
    [
        b"", b"Basic", b"Basic \xff\x80", b"Basic bm9jb2xvbg==", b"Bearer", b"Bearer \xc3\x28",
        b"Bearer a.b.c", b"Basic " + b"QUFB" * 4000, b"Bearer " + b"x" * 15_000, b"Negotiate YII=",
        b"Basic\tYWRtaW46c2VjcmV0",
    ],
    ids=range(11),
)  # fmt: skip
def test_a_hostile_header_is_refused_on_both_ways(site: Site, value: bytes) -> None:
    for target in (b"/schemas/ids/1", b"/subjects"):
        with RawClient(site.registry.port) as client:
            client.send(b"GET %b HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n\r\n" % (target, value))
            assert client.reply().status == 401


def test_credentials_in_two_headers_are_refused(site: Site) -> None:
    header = b"Authorization: Basic YWRtaW46c2VjcmV0\r\n"
    with RawClient(site.registry.port) as client:
        client.send(b"GET /schemas/ids/1 HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % header)
        assert client.reply().status == 200
        client.send(b"GET /schemas/ids/1 HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (header * 2))
        assert client.reply().status == 401


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("alice:secret\nbob:$argon2id$", "line 2: the password of 'bob' is an argon2 hash"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_registry_does_not_start_with_a_file_of_users_that_it_cannot_use(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    users = tmp_path / "users"
    if content is not None:
        users.write_text(content)
    registry = Registry(tmp_path / "data", "--users", str(users))
    try:
        assert registry.process.wait(30) == 1
        assert reason in registry.output
    finally:
        registry.kill()
