"""Users, rules and certificates that are replaced under load: it goes on, and who is removed is refused."""

from __future__ import annotations

import itertools
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self

import httpx

from registry.security.watched_file import CHECK_EVERY_S
from tests.support.certificates import Authority, replace
from tests.support.running import PATIENT, Registry, free_port, until
from tests.support.threads import in_threads

# Of the password "secret", with parameters that make it fast.
SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
RULE = '[[allow]]\nprincipal = {}\nrole = "developer"\nsubjects = "*"\n'
# New connections, so many that hardly all reach the same reader.
CONNECTIONS = 8
ROUNDS = 2
TIMEOUT_S = 60.0
REFUSED_WITHIN_S = 5.0
CHECKS = 2


class Site:
    """A registry's files, and clients of its https port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.plain = folder, free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.authority = Authority()
        self.context = ssl.create_default_context(cafile=str(self.authority.write(folder, "ca")))
        self.renew()
        self.set_users("wanda", "alice")
        self.set_rules("wanda", "alice", "bob")

    def renew(self) -> None:
        self.certificate, self.key = self.authority.issue().write(self.folder, "server")

    def set_users(self, *names: str) -> None:
        replace(self.folder / "users", "".join(f"{name}:{SECRET}\n" for name in names).encode())

    def set_rules(self, *names: str) -> None:
        replace(self.folder / "rules", RULE.format(json.dumps(names)).encode())

    def serve(self, *flags: str) -> Registry:
        return Registry(
            self.folder / "data",
            *("--listeners", f"http://127.0.0.1:{self.plain},{self.url}", *flags),
            *("--tls-certificate", str(self.certificate), "--tls-key", str(self.key)),
            *("--users", str(self.folder / "users"), "--rules", str(self.folder / "rules")),
            port=self.plain,
        )

    def user(self, name: str) -> User:
        return User(self, name)

    def serves_the_present_certificate(self) -> bool:
        served = ssl.get_server_certificate(("127.0.0.1", self.port))
        return served.encode() == self.certificate.read_bytes()


class User:
    """A client of one user, with one connection that stays open."""

    def __init__(self, site: Site, name: str) -> None:
        self._site, self.name = site, name
        self.kept = self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kept.close()

    def connect(self) -> httpx.Client:
        site = self._site
        return httpx.Client(
            base_url=site.url, verify=site.context, auth=(self.name, "secret"), timeout=PATIENT
        )

    def read(self, client: httpx.Client, path: str = "/subjects/wanda-1/versions/latest") -> int:
        return client.get(path).status_code

    def write(self, client: httpx.Client, size: int) -> int:
        schema = json.dumps({"type": "fixed", "name": f"F{size}", "size": size})
        answer = client.post(f"/subjects/{self.name}-{size}/versions", json={"schema": schema})
        return answer.status_code

    def is_answered(self, status: int) -> bool:
        """Return true if all requests are answered so, on the open connection and on new ones."""
        found = {self.read(self.kept), self.write(self.kept, 1)}
        for _ in range(CONNECTIONS):
            with self.connect() as new:
                found.add(self.read(new))
        return found == {status}

    def become(self, status: int) -> None:
        """Return when all requests are answered so."""
        until(lambda: self.is_answered(status), TIMEOUT_S, f"{status} for {self.name}")


@contextmanager
def load(user: User) -> Iterator[list[object]]:
    """Send reads and writes by threads, some with a connection for each; yield the list of failures."""
    failures: list[object] = []
    stop = threading.Event()

    def ask(writes: bool, reconnects: bool) -> None:
        client = user.connect()
        for size in itertools.count(1):
            if stop.wait(0.02):
                break
            try:
                status = user.write(client, size) if writes else user.read(client, "/schemas/ids/1")
                if status != httpx.codes.OK:
                    failures.append(status)
            except httpx.HTTPError as error:
                failures.append(error)
            if reconnects:
                client.close()
                client = user.connect()
        client.close()

    kinds = itertools.product((False, True), repeat=2)
    with in_threads(stop, *(partial(ask, *kind) for kind in kinds)):
        yield failures


def test_files_are_replaced_under_load_without_a_failed_request(tmp_path: Path) -> None:
    site = Site(tmp_path)
    registry = site.serve("--readers", "2")
    try:
        registry.wait()
        with site.user("wanda") as wanda, site.user("alice") as alice, site.user("bob") as bob:
            assert wanda.write(wanda.kept, 1) == httpx.codes.OK
            with load(wanda) as failures:
                for _ in range(ROUNDS):
                    replace_files(site, alice, bob)
                    assert not failures
            assert not failures
        assert registry.stop() == 0, registry.output
    finally:
        registry.kill()
    assert "Traceback" not in registry.output


def replace_files(site: Site, alice: User, bob: User) -> None:
    """Rename alice to bob, forbid bob everything, renew the certificate, and restore the users."""
    alice.become(httpx.codes.OK)
    bob.become(httpx.codes.UNAUTHORIZED)
    site.set_users("wanda", "bob")
    site.renew()
    alice.become(httpx.codes.UNAUTHORIZED)
    bob.become(httpx.codes.OK)
    site.set_rules("wanda", "alice")
    bob.become(httpx.codes.FORBIDDEN)
    until(site.serves_the_present_certificate, TIMEOUT_S, "the new certificate")
    site.set_users("wanda", "alice")
    site.set_rules("wanda", "alice", "bob")


def test_a_removed_user_is_refused_within_the_documented_time() -> None:
    """A file is read at the second check after its change, unless it is still being written to."""
    assert CHECKS * CHECK_EVERY_S < REFUSED_WITHIN_S
