"""TLS on the public port of real processes: http and https side by side, client certificates, reload."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import json
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.process.test_lifecycle import children
from tests.support.certificates import DAY, Authority, replace
from tests.support.running import Registry, free_port, until
from tests.support.threads import in_threads

PATH = "/subjects/tls-value/versions"
SCHEMA = rb'"schema":"\"string\""'
BODY = json.dumps({"schema": '"string"'})
READERS = 2  # of the shared registry
# Of a client between two requests: more of them in the same time would show nothing else.
PAUSE_S = 0.02
KIND = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class Site:
    """The files of a registry with an http and an https listener, and its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.ca = self.authority.write(folder, "ca")
        self.port, self.plain = free_port(), free_port()
        self.renew()

    def renew(self) -> None:
        """Replace the server's certificate and key."""
        self.certificate, self.key = self.authority.issue().write(self.folder, "server")

    def serves_the_present_one(self) -> bool:
        return ssl.DER_cert_to_PEM_cert(self.served()).encode() == self.certificate.read_bytes()

    @property
    def pem(self) -> tuple[str, ...]:
        return ("--tls-certificate", str(self.certificate), "--tls-key", str(self.key))

    def serve(self, *flags: str) -> Registry:
        listeners = f"http://127.0.0.1:{self.plain},https://127.0.0.1:{self.port}"
        return Registry(self.folder / "data", "--listeners", listeners, *flags, port=self.plain)

    def context(self, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        if client is not None:
            context.load_cert_chain(*client)
        return context

    def connection(self, context: ssl.SSLContext | None = None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "localhost", self.port, timeout=30.0, context=context or self.context()
        )

    def get(self, path: str, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
        with closing(self.connection(context)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def served(self) -> bytes:
        """Return the server's certificate of a new connection."""
        with closing(self.connection()) as connection:
            connection.connect()
            return connection.sock.getpeercert(binary_form=True)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


class Shared(NamedTuple):
    """A site with its registry, for tests that leave both as they were."""

    site: Site
    registry: Registry


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    site = Site(tmp_path_factory.mktemp("site"))
    header = '"add Strict-Transport-Security: max-age=31536000; includeSubDomains"'
    flags = ("--readers", str(READERS), "--response-http-headers-config", header)
    with running(site.serve(*site.pem, *flags)) as registry:
        yield Shared(site, registry)


@contextlib.contextmanager
def running(registry: Registry) -> Iterator[Registry]:
    try:
        yield registry.wait()
        assert "Traceback" not in registry.output, registry.output
    finally:
        registry.stop()


def test_http_and_https_are_served_side_by_side(shared: Shared) -> None:
    site, registry = shared
    with closing(site.connection()) as connection:
        connection.request("POST", PATH, BODY, KIND)
        assert json.loads(connection.getresponse().read())["id"] == 1
        connection.request("GET", "/schemas/ids/1")
        assert SCHEMA in connection.getresponse().read()
    with closing(http.client.HTTPConnection("127.0.0.1", site.plain)) as plain:
        plain.request("GET", "/schemas/ids/1")
        assert SCHEMA in plain.getresponse().read()
        plain.request("GET", "/metrics")
        gauge = b'registrar_certificate_expiry_seconds{file="tls_certificate"}'
        assert gauge in plain.getresponse().read()
    until(lambda: "Registrar" in registry.output, 10.0, "the banner")
    assert f"http://127.0.0.1:{site.plain} and https://127.0.0.1:{site.port}\n" in registry.output


def test_a_pkcs12_file_is_served_by_tls_alone_and_renewed_with_its_password(site: Site) -> None:
    issued = site.authority.issue()
    replace(site.folder / "server.p12", issued.pkcs12("secret"))
    replace(site.folder / "password", b"secret\n")
    registry = Registry(
        site.folder / "data",
        *("--listeners", f"https://127.0.0.1:{site.port}", "--readers", "1"),
        *("--tls-keystore", str(site.folder / "server.p12")),
        *("--tls-keystore-password-file", str(site.folder / "password")),
    )
    try:
        until(lambda: "Registrar" in registry.output, 60.0, "the banner")
        assert site.get("/health/ready")[0] == 200
        with closing(site.connection()) as connection:
            connection.request("POST", PATH, BODY, KIND)
            assert connection.getresponse().status == 200
        renewed = site.authority.issue()
        replace(site.folder / "server.p12", renewed.pkcs12("another secret"))
        replace(site.folder / "password", b"another secret\n")
        der = ssl.PEM_cert_to_DER_cert(renewed.pem.decode())
        until(lambda: site.served() == der, 30.0, "the renewed keystore with its new password")
    finally:
        registry.stop()


def test_certificates_are_replaced_under_load_without_a_failed_request(shared: Shared) -> None:
    site, registry = shared
    before = len(registry.output)
    with load(site) as failures:
        for _ in range(3):
            renew_for_all(shared)
            assert not failures
        assert "stays in use" not in registry.output[before:]
    assert not failures


def renew_for_all(shared: Shared) -> None:
    """Replace the server's certificate, and return once every reader uses the new one."""
    before = len(shared.registry.output)
    shared.site.renew()
    in_use = "the changed certificate is in use"
    until(lambda: shared.registry.output.count(in_use, before) == READERS, 30.0, "the new certificate")
    assert shared.site.serves_the_present_one()


@contextlib.contextmanager
def load(site: Site) -> Iterator[list[object]]:
    """Send requests by threads, some with a connection for each; yield the list of failures."""
    failures: list[object] = []
    stop = threading.Event()

    def ask(number: int) -> None:
        connection = site.connection()
        while not stop.wait(PAUSE_S):
            try:
                connection.request("POST", f"/subjects/s{number}/versions", BODY, KIND)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    failures.append(body)
            except (OSError, http.client.HTTPException) as error:
                failures.append(error)
            if number % 2:
                connection.close()  # it connects again by itself
        connection.close()

    with in_threads(stop, *(partial(ask, number) for number in range(4))):
        yield failures


@pytest.mark.logs_errors("contains no valid PEM certificates")
def test_a_broken_replacement_leaves_the_certificate_in_use(shared: Shared) -> None:
    site, registry = shared
    before = site.served()
    replace(site.certificate, b"nothing")
    until(lambda: "contains no valid PEM certificates" in registry.output, 30.0, "the error")
    assert site.served() == before
    renew_for_all(shared)


@pytest.mark.logs_errors("contains no valid PEM certificates", "the reader ended")
def test_a_reader_that_dies_while_the_files_are_broken_comes_back_when_they_are_mended(site: Site) -> None:
    with running(site.serve(*site.pem, "--readers", "1")) as registry:
        replace(site.certificate, b"nothing")
        (reader,) = (pid for pid, module in children(registry).items() if "reader" in module)
        os.kill(reader, signal.SIGKILL)
        until(lambda: "the reader ended (exit code 1)" in registry.output, 30.0, "a start to fail")
        assert registry.process.poll() is None
        site.renew()
        until(lambda: answered(site) == 200, 30.0, "an answer again")


@pytest.mark.parametrize(("version", "accepted"), [("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_tls_1_1_is_refused(shared: Shared, version: str, accepted: bool) -> None:
    site = shared.site
    context = site.context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    if accepted:
        assert site.get("/subjects", context)[0] == 200
    else:
        assert refused(site, context)


def client_flags(site: Site, auth: str) -> tuple[str, ...]:
    return (*site.pem, "--tls-client-auth", auth, "--tls-client-ca", str(site.ca))


def refused(site: Site, context: ssl.SSLContext) -> bool:
    """Return true if the server ends the connection; with TLS 1.3 the client learns it after its request."""
    try:
        site.get("/subjects", context)
    except (ssl.SSLError, ConnectionError, http.client.HTTPException):
        return True
    return False


@pytest.mark.parametrize("auth", ["wanted", "required"])
def test_client_certificates_are_verified(site: Site, auth: str) -> None:
    own = site.context(site.authority.issue("CN=alice").write(site.folder, "alice"))
    foreign = site.context(Authority("Other").issue("CN=eve").write(site.folder, "eve"))
    expired = site.authority.issue("CN=old", begins=-3 * DAY, ends=-1 * DAY)
    late = site.context(expired.write(site.folder, "old"))
    with running(site.serve(*client_flags(site, auth), "--readers", "1")):
        assert site.get("/subjects", own)[0] == 200
        assert refused(site, foreign)
        assert refused(site, late)
        assert refused(site, site.context()) == (auth == "required")


def test_the_name_in_a_certificate_admits_a_client_and_the_plain_port_nobody(site: Site) -> None:
    alice = site.context(site.authority.issue("CN=alice").write(site.folder, "alice"))
    bob = site.context(site.authority.issue("CN=bob").write(site.folder, "bob"))
    rules = ("--tls-principal-rules", "RULE:^CN=(alice)$/$1/")
    with running(site.serve(*client_flags(site, "required"), *rules, "--readers", "2")):
        with closing(site.connection(alice)) as connection:
            connection.request("POST", PATH, BODY, KIND)
            assert connection.getresponse().read().startswith(b'{"id":1')
        session = None
        for _ in range(3):  # the later connections resume the session of the first
            answer, session = resumed(site, alice, session)
            assert answer.startswith(b"HTTP/1.1 200 ")
        assert site.get("/schemas/ids/1", bob)[0] == 401, "no rule gives it a name"
        with closing(http.client.HTTPConnection("127.0.0.1", site.plain)) as plain:
            plain.request("GET", "/schemas/ids/1")
            assert plain.getresponse().status == 401


def resumed(
    site: Site, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[bytes, ssl.SSLSession | None]:
    """Ask on a connection that resumes ``session``; return the answer's first bytes and the session."""
    with (
        socket.create_connection(("127.0.0.1", site.port), timeout=30.0) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as secured,
    ):
        secured.sendall(b"GET /schemas/ids/1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return secured.recv(100), secured.session


def test_client_certificates_are_not_asked_for_by_default(shared: Shared) -> None:
    site = shared.site
    foreign = site.context(Authority("Other").issue("CN=eve").write(site.folder, "eve"))
    assert site.get("/subjects", foreign)[0] == 200


def test_the_ca_of_clients_is_replaced_without_a_restart(site: Site) -> None:
    other = Authority("Other")
    alice = site.context(site.authority.issue("CN=alice").write(site.folder, "alice"))
    bob = site.context(other.issue("CN=bob").write(site.folder, "bob"))
    clients = site.authority.write(site.folder, "clients")
    flags = (*site.pem, "--tls-client-auth", "required", "--tls-client-ca", str(clients))
    with (
        running(site.serve(*flags, "--readers", "1")),
        closing(site.connection(alice)) as open_before,
        closing(site.connection(alice)) as stream,
    ):
        open_before.request("GET", "/subjects")
        assert open_before.getresponse().read() == b"[]"
        stream.request("GET", "/changes", headers={"accept": "text/event-stream"})
        events = stream.getresponse()
        assert events.status == 200
        assert refused(site, bob)
        replace(clients, other.pem + site.authority.pem)
        until(lambda: not refused(site, bob), 30.0, "the second authority")
        open_before.request("GET", "/subjects")
        assert open_before.getresponse().read() == b"[]", "nobody's authority was removed"
        replace(clients, other.pem)
        until(lambda: refused(site, alice), 30.0, "the authority to be removed")
        assert not refused(site, bob)
        events.read()  # to its end
        assert open_before.sock.recv(1) == b"", "the connection has ended"


def test_a_certificate_that_expires_ends_its_connections_and_cannot_be_used_by_a_resumed_session(
    site: Site,
) -> None:
    with running(site.serve(*client_flags(site, "wanted"), "--readers", "1")):
        issued = site.authority.issue("CN=alice", ends=dt.timedelta(seconds=3))
        alice = site.context(issued.write(site.folder, "alice"))
        with closing(site.connection(alice)) as stream:
            stream.request("GET", "/changes", headers={"accept": "text/event-stream"})
            events = stream.getresponse()
            assert events.status == 200
            answer, session = resumed(site, alice, None)
            assert b" 401 " not in answer.partition(b"\r\n")[0]
            events.read()  # to its end
            assert dt.datetime.now(dt.UTC) >= issued.certificate.not_valid_after_utc
        with suppress(ConnectionError, ssl.SSLError):
            assert resumed(site, alice, session)[0] == b""
        assert refused(site, alice)


def test_slow_handshakes_do_not_hold_up_the_server(site: Site) -> None:
    flags = ("--readers", "1", "--connections-max", "20", "--header-timeout-s", "1")
    with running(site.serve(*site.pem, *flags)) as registry, contextlib.ExitStack() as stack:
        for _ in range(60):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", site.port)))
            with contextlib.suppress(OSError):
                slow.sendall(b"\x16\x03\x01\x02\x00\x01")
        until(lambda: answered(site) == 200, 30.0, "an answer while they wait")
        assert "error" not in registry.output


def answered(site: Site) -> int:
    try:
        return site.get("/subjects")[0]
    except (OSError, http.client.HTTPException):
        return 0


def test_hostile_bytes_leave_no_trace_in_the_log(shared: Shared) -> None:
    site, registry = shared
    until(lambda: "/versions/latest\n" in registry.output, 60.0, "the whole banner")
    before = registry.output
    plain_http, broken_hello = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"\x16\x03\x01\x00\x05\x01"
    for sent in (plain_http, broken_hello, bytes(range(256)) * 100):
        send_and_wait(site.port, sent)
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        closing(http.client.HTTPSConnection("localhost", site.plain, context=site.context())) as client,
    ):
        client.connect()
    assert site.get("/subjects")[0] == 200
    assert registry.output == before


def send_and_wait(port: int, sent: bytes) -> None:
    """Send bytes, then wait for the server to close the connection."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30.0) as client,
        contextlib.suppress(ConnectionError),
    ):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096):
            pass


def problems(registry: Registry) -> str:
    assert registry.process.wait(60.0) == 1
    return registry.output


def test_a_start_with_unusable_files_is_refused_with_the_setting_and_the_reason(site: Site) -> None:
    other = site.authority.issue().write(site.folder, "other")
    expired = site.authority.issue(begins=-3 * DAY, ends=-1 * DAY).write(site.folder, "expired")
    rules = ("--tls-client-auth", "wanted", "--tls-client-ca", site.ca, "--tls-principal-rules", "RULE:x")
    cases: list[tuple[tuple[Any, ...], str]] = [
        (("--tls-certificate", site.certificate, "--tls-key", other[1]), "does not belong to the cert"),
        (("--tls-certificate", expired[0], "--tls-key", expired[1]), "the certificate expired on"),
        (("--tls-certificate", site.key, "--tls-key", site.key), "contains no valid PEM certificates"),
        (("--tls-keystore", site.certificate), "is not PKCS12, or the password is wrong"),
        ((*site.pem, *rules), "tls_principal_rules"),
        ((), "also needs tls_certificate and tls_key, or tls_keystore"),
        ((*site.pem, "--tls-client-auth", "required"), "also needs tls_client_ca"),
    ]
    for flags, reason in cases:
        said = problems(site.serve(*map(str, flags)))
        assert reason in said
        assert "Traceback" not in said
        (site.folder / f"data-{site.plain}.txt").unlink()


def test_hsts_is_set_by_the_response_headers(shared: Shared) -> None:
    with closing(shared.site.connection()) as connection:
        for path in ("/subjects", "/schemas/ids/9"):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            value = answer.getheader("strict-transport-security")
            assert value == "max-age=31536000; includeSubDomains"
