"""Reaching a registry: addresses, credentials, TLS, and one sentence for each failure."""

from __future__ import annotations

import base64
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.process.cli.running_verbs import verb, verb_process, verb_with
from tests.support.certificates import Authority
from tests.support.running import PATIENT, ROOT, Registry, Served, free_port
from tests.support.token_issuer import AUDIENCE, Issuer

# Of the password "secret", with parameters that make it fast.
SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
NONE_LISTENS = "check the port, or start the registry"
RULES = """
[[allow]]
principal = "admin"
role = "admin"
subjects = "*"

[[allow]]
principal = "alice"
role = "reader"
subjects = "public-*"
"""


class Site(NamedTuple):
    """A registry with users, tokens and rules, at an http and an https address."""

    plain: str
    secure: str
    ca: str
    issuer: Issuer


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("reaching")
    users, rules = folder / "users", folder / "rules.toml"
    users.write_text("".join(f"{name}:{SECRET}\n" for name in ("admin", "alice")))
    rules.write_text(RULES)
    authority, plain, secure = Authority(plain=True), free_port(), free_port()
    ca = authority.write(folder, "ca")
    certificate, key = authority.issue().write(folder, "server")
    with Issuer() as issuer:
        registry = Registry(
            folder / "data",
            *("--listeners", f"http://127.0.0.1:{plain},https://127.0.0.1:{secure}", "--readers", "1"),
            *("--tls-certificate", str(certificate), "--tls-key", str(key), "--users", str(users)),
            *("--rules", str(rules), "--jwt-jwks", issuer.jwks, "--jwt-issuer", issuer.url),
            *("--jwt-audience", AUDIENCE),
            port=plain,
        )
        registry.headers["Authorization"] = "Basic " + base64.b64encode(b"admin:secret").decode()
        try:
            registry.wait()
            for subject in ("public-a", "private-b"):
                httpx.post(
                    f"{registry.url}/subjects/{subject}/versions",
                    json={"schema": '"string"'},
                    auth=("admin", "secret"),
                    timeout=PATIENT,
                ).raise_for_status()
            yield Site(registry.url, f"https://127.0.0.1:{secure}", str(ca), issuer)
            assert registry.stop() == 0, registry.output
        finally:
            registry.kill()


def with_user(url: str, user: str) -> str:
    return url.replace("://", f"://{user}@")


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Run a server that sends the same bytes to everybody; yield its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def http_answer(head: str, body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def test_credentials_come_from_the_url_the_environment_or_netrc(site: Site, tmp_path: Path) -> None:
    both, public = "private-b\npublic-a\n", "public-a\n"
    assert verb("subjects", "--url", with_user(site.plain, "admin:secret")).out == both
    assert verb("subjects", "--url", with_user(site.plain, "alice:secret")).out == public
    url = {"REGISTRAR_URL": site.plain}
    assert verb_process("subjects", REGISTRAR_USER="admin:secret", **url).out == both
    assert verb_with("subjects", REGISTRAR_USER="admin", REGISTRAR_PASSWORD="secret", **url).out == both
    assert verb_with("subjects", REGISTRAR_TOKEN=site.issuer.token(), **url).out == public
    named = tmp_path / "credentials"
    named.write_text("machine elsewhere login x password y\nmachine 127.0.0.1 login admin password secret\n")
    named.chmod(0o600)
    assert verb_with("subjects", NETRC=str(named), **url).out == both
    (tmp_path / ".netrc").write_bytes(named.read_bytes())
    (tmp_path / ".netrc").chmod(0o600)
    assert verb_with("subjects", HOME=str(tmp_path), **url).out == both
    # What is nearer to the command wins.
    assert verb_with("subjects", REGISTRAR_USER="alice:secret", NETRC=str(named), **url).out == public


def test_registries_have_names_and_credentials_of_their_own(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "registrar" / "registries.toml"
    file.parent.mkdir()
    file.write_text(
        f'[prod]\nurl = "{site.secure}"\nca = "{site.ca}"\nuser_file = "prod.user"\n'
        f'[weak]\nurl = "{site.plain}"\ntoken_file = "token"\n[bare]\nurl = "{site.plain}"\n'
    )
    for name, secret in (("prod.user", "admin:secret\n"), ("token", site.issuer.token())):
        (file.parent / name).write_text(secret)
        (file.parent / name).chmod(0o600)
    known = {"XDG_CONFIG_HOME": str(tmp_path)}
    both, public = "private-b\npublic-a\n", "public-a\n"
    assert verb_with("subjects", "--registry", "prod", **known).out == both
    assert verb_with("subjects", "--registry", "weak", **known, REGISTRAR_USER="admin:secret").out == public
    assert verb_with("subjects", REGISTRAR_URL="@prod", **known).out == both
    assert verb_with("subjects", "--registry", "bare", **known, REGISTRAR_USER="admin:secret").out == both
    same = verb_with("snapshot", "diff", "@prod", site.plain, "--data", str(tmp_path / "data"), **known,
                        REGISTRAR_USER_TO="admin:secret")  # fmt: skip
    assert (same.status, same.out) == (0, "no differences\n")
    promoted = ("promote", "--from", "@prod", "--to", "@prod", "--subjects", "*", "--json")
    assert verb_with(*promoted, **known).json["steps"] == []
    unknown = verb_with("subjects", "--registry", "prd", "--json", **known)
    assert (unknown.status, unknown.json["error"]["status"]) == (2, 2)
    assert "there is no registry 'prd'" in unknown.err
    assert "known registries: bare, prod, weak" in unknown.err
    twice = verb_with("subjects", "--registry", "prod", "--url", site.plain, **known)
    assert (twice.status, "give --url or --registry, not both" in twice.err) == (2, True)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "requires credentials: set REGISTRAR_USER=NAME:PASSWORD or REGISTRAR_TOKEN"),
        ({"REGISTRAR_USER": "admin:wrong"}, "refused the password of 'admin' in REGISTRAR_USER"),
        ({"REGISTRAR_TOKEN": "wrong"}, "refused the token in REGISTRAR_TOKEN"),
        ({"REGISTRAR_USER": "admin"}, "REGISTRAR_USER has no password"),
        ({"REGISTRAR_USER": "a:b", "REGISTRAR_TOKEN": "c"}, "are both set: unset one of them"),
        ({"NETRC": "/nowhere"}, "NETRC names /nowhere, which is not a file"),
    ],
)
def test_credentials_that_do_not_serve_are_reported_without_their_secret(
    site: Site, environment: dict[str, str], told: str
) -> None:
    done = verb_with("subjects", "--url", site.plain, **environment)
    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert "wrong" not in done.err


@contextmanager
def recording() -> Iterator[tuple[str, list[str | None]]]:
    """Run a server that finds nothing; yield its address, and the credentials in all requests."""
    found: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.append(self.headers["authorization"])
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b'{"error_code":40401,"message":"nothing"}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", found
        finally:
            server.shutdown()
            thread.join()


def test_no_registry_gets_the_credentials_of_the_other_one(site: Site, tmp_path: Path) -> None:
    admin = {"REGISTRAR_USER_FROM": "admin:secret"}
    with recording() as (url, sent):
        words = ("promote", "--from", site.plain, "--to", url, "--subjects", "*")
        for variables in (admin, {"REGISTRAR_USER": "admin:secret", "REGISTRAR_URL": site.plain}):
            assert "nothing" in verb_with(*words, **variables).err
            assert set(sent) == {None}
            sent.clear()
        words = ("snapshot", "diff", site.plain, url, "--data", str(tmp_path))
        verb_with(*words, **admin, REGISTRAR_TOKEN_TO="t")
        assert set(sent) == {"Bearer t"}
    refused = verb_with("promote", "--from", url, "--to", site.plain, "--subjects", "*", **admin)
    assert refused.status == 2
    refused = verb_with("promote", "--from", site.plain, "--to", url, "--subjects", "*")
    assert "requires credentials: set REGISTRAR_USER_FROM=NAME:PASSWORD" in refused.err


def test_all_that_a_registry_holds_is_read_with_the_same_credentials(site: Site, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    both = f"http://127.0.0.1:{free_port()},{with_user(site.secure, 'admin:secret')}"
    same = verb("snapshot", "diff", both, with_user(site.plain, "admin:secret"), "--ca", site.ca, *data)
    assert (same.status, same.out, same.err) == (0, "no differences\n", "")
    none = verb_with("duplicates", site.plain, *data, REGISTRAR_USER="admin:secret")
    assert (none.status, none.out) == (0, "there are no duplicates\n")
    two = ("snapshot", "diff", both, site.plain, "--ca", site.ca)
    for words, variable in ((two, "REGISTRAR_USER_TO"), (("duplicates", site.plain), "REGISTRAR_USER")):
        refused = verb_with(*words, *data, **{variable: "alice:wrong"})
        assert (refused.status, refused.out) == (2, "")
        assert f"refused the password of 'alice' in {variable}" in refused.err
    forbidden = verb("snapshot", "diff", both, with_user(site.plain, "alice:secret"), "--ca", site.ca, *data)
    assert (forbidden.status, forbidden.out) == (2, "")
    assert "does not allow this with the password of 'alice' in the URL" in forbidden.err


def test_what_a_user_may_not_do_is_reported(site: Site) -> None:
    done = verb("config", "set", "--level", "FULL", "--url", with_user(site.plain, "alice:secret"))
    assert done.status == 2
    assert "does not allow this with the password of 'alice' in the URL" in done.err


def test_the_status_distinguishes_a_refusal_from_a_node_that_does_not_answer(site: Site) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    allowed, refused, forbidden = (
        with_user(site.plain, each) for each in ("admin:secret", "admin:wrong", "alice:secret")
    )
    done = verb("status", "--url", f"{dead},{refused},{forbidden},{allowed}")
    assert done.status == 1
    shown = ("no answer", "not authenticated", "not permitted", "yes")
    assert all(text in line for text, line in zip(shown, done.out.splitlines()[1:], strict=True))
    only = verb("status", "--json", "--url", f"{dead},{refused},{forbidden}")
    assert (only.status, [each["httpStatus"] for each in only.json["nodes"]]) == (2, [None, 401, 403])


def test_tls_needs_the_ca(site: Site) -> None:
    url = with_user(site.secure, "admin:secret")
    assert verb("subjects", "--url", url, "--ca", site.ca).status == 0
    assert verb_process("subjects", REGISTRAR_URL=url, REGISTRAR_CA=site.ca).status == 0
    unknown = verb("subjects", "--url", url)
    assert unknown.status == 2
    assert "its certificate is not accepted" in unknown.err
    assert "--ca FILE" in unknown.err
    assert "secret" not in unknown.err
    missing = verb("subjects", "--url", url, "--ca", "/nowhere")
    assert (missing.status, "/nowhere cannot be used for TLS" in missing.err) == (2, True)


def test_tls_and_plain_http_are_distinguished(site: Site) -> None:
    plain = verb("subjects", "--url", site.secure.replace("https", "http"))
    assert (plain.status, "write https://" in plain.err) == (2, True)
    tls = verb("subjects", "--url", site.plain.replace("http", "https"))
    assert (tls.status, "does not speak TLS at this port: write http://" in tls.err) == (2, True)


def test_the_next_address_is_asked_if_one_is_dead_or_not_ready(registry: Served) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with answering(http_answer("503 Service Unavailable")) as unready:
        done = verb("subjects", "--url", f"{dead},{unready}, {registry.url}")
        assert (done.status, done.err) == (0, "")
        gone = verb("subjects", "--url", f"{dead},{unready}")
    assert gone.status == 2
    assert "503" in gone.err
    done = verb("subjects", "--url", f"{dead},{dead}")
    assert (done.status, done.err.count(NONE_LISTENS)) == (2, 1)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"\0\1\2garbage\r\n\r\n", "closed the connection without an answer in HTTP"),
        (b"", "closed the connection without an answer in HTTP"),
        (http_answer("200 OK", b"<html>"), "is not a schema registry"),
        (http_answer("200 OK", b"{}"), "is not a schema registry"),
        (http_answer("200 OK", b'["\\ud800"]'), "answered /subjects with text that is not Unicode"),
        (http_answer("200 OK", b"[" * 100_000), "is not a schema registry"),
        (http_answer("404 Not Found"), "has no /subjects: check the path of the URL"),
        (http_answer("404 Not Found", b"nothing here"), "is not a schema registry"),
        (http_answer("200 OK\r\nContent-Encoding: gzip", b"[]"), "answered /subjects with damaged content"),
        (http_answer("302 Found\r\nLocation: https://elsewhere/"), "redirects to 'https://elsewhere/'"),
        (http_answer("500 Oops", b"\xff"), "answered 500; try again later"),
        (http_answer("400 Bad Request", b"plain HTTP request sent to HTTPS port"), "write https://"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[", "closed the connection"),
    ],
)
def test_a_server_that_is_no_registry_is_reported(answer: bytes, told: str) -> None:
    with answering(answer) as url:
        done = verb("subjects", "--url", url)
    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert len(done.err.splitlines()) == 1


def test_answers_cannot_steer_the_terminal() -> None:
    head, text = "Content-Type: application/json", '"a\\u001b[2J\\u009b2J\\u007f"'
    refusal = http_answer(f"422 No\r\n{head}", f'{{"error_code":42201,"message":{text}}}'.encode())
    with answering(refusal) as url:
        done = verb("subjects", "--url", url)
    assert (done.status, done.err) == (1, "registrar: a\\x1b[2J\\x9b2J\\x7f\n")
    with answering(http_answer(f"200 OK\r\n{head}", f"[{text}]".encode())) as url:
        done = verb("subjects", "--json", "--url", url)
    assert done.json == ["a\x1b[2J\x9b2J\x7f"]
    assert done.out.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://registry.invalid:8081", "is unknown: check its name"),
        ("ftp://user:secret@host", "'ftp://…@host' is not the URL of a registry"),
        ("http://user:secret@host:port", "'http://…@host:port' is not a URL"),
        ("http://host/?x=1", "is not the URL of a registry"),
        ("http://user:secret/x@host", "'http://…@host' is not a URL"),
        ("http://user:12/secret@host", "'http://…@host' is not a URL"),
        ("http://host\x01", "cannot be used"),
        (",", "no URL of a registry is given"),
    ],
)
def test_an_address_that_leads_nowhere_is_reported(url: str, told: str) -> None:
    done = verb("subjects", "--url", url)
    assert done.status == 2
    assert told in done.err
    assert "secret" not in done.err


def test_a_path_without_a_registry_is_reported(registry: Served) -> None:
    done = verb("subjects", "--url", f"{registry.url}/elsewhere")
    assert done.status == 2
    assert "has no /subjects: check the path of the URL" in done.err


def test_a_server_that_is_silent_is_given_up() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = verb("subjects", "--url", url, "--timeout", "0.2")
        assert (done.status, "did not answer in time" in done.err) == (2, True)


@pytest.mark.parametrize("verb_words", [("snapshot", "diff", "{}", "{}"), ("duplicates", "{}")])
def test_what_waits_for_a_registry_can_be_interrupted(tmp_path: Path, verb_words: tuple[str, ...]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        words = [each.format(url) for each in verb_words]
        with subprocess.Popen(
            [sys.executable, "-m", "registry", *words, "--data", str(tmp_path)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as process:  # fmt: skip
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
