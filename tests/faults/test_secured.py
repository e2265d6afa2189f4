"""Faults of a cluster with everything that secures it: TLS, users, rules, policies, audit logs."""

from __future__ import annotations

import base64
import ssl
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from deploy.local.broker import Broker
from registry.log.kafka.record_batches import PRINCIPAL_HEADER_NAME
from tests.support.certificates import Authority
from tests.support.kafka_topics import consumed
from tests.support.running import until

from .audit import recorded, unrecorded
from .history import WRITES, Kind
from .load import Line, Login
from .rig import HEAL_S, Rig, run

TOPIC = "faults-secured"
# Of the password "secret", with parameters that make it fast.
_HASH = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
_RULES = """
[[allow]]
principal = "rig"
role = "operator"
subjects = "t*"

[[allow]]
principal = "watch"
role = "admin"
subjects = "*"
"""
_POLICIES = """
writes_per_minute = 1000000

[[policy]]
subjects = ["*"]
create = ["rig"]
register = ["rig"]
versions_max = 100
lint_errors = ["namespace", "field_defaults"]
"""


class Site:
    """The files of a cluster, and its users."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.public, self.peers = Authority("public"), Authority("peers")
        self.context = ssl.create_default_context(cafile=str(self.public.write(folder, "ca")))
        self.peers.write(folder, "peers")
        users = "".join(f"{name}:{_HASH}\n" for name in ("rig", "watch", "other"))
        for name, content in (("users", users), ("rules", _RULES), ("policies", _POLICIES)):
            (folder / name).write_text(content)

    def login(self, name: str) -> Login:
        return Login("Basic " + base64.b64encode(f"{name}:secret".encode()).decode(), self.context)

    def shared(self) -> tuple[str, ...]:
        """Return the flags of every node."""
        certificate, key = self.public.issue().write(self.folder, "server")
        files = ("users", "rules", "policies")
        return (
            *("--tls-certificate", str(certificate), "--tls-key", str(key)),
            *(flag for name in files for flag in (f"--{name}", str(self.folder / name))),
            *("--peer-secret", "a secret that the nodes share"),
            *("--peer-tls-ca", str(self.folder / "peers.pem")),
        )

    def own(self, number: int) -> tuple[str, ...]:
        """Return the flags of one node."""
        certificate, key = self.peers.issue(f"CN=node-{number}").write(self.folder, f"peer-{number}")
        peer = ("--peer-tls-certificate", str(certificate), "--peer-tls-key", str(key))
        return (*peer, "--audit-log", str(self.audit(number)))

    def audit(self, number: int) -> Path:
        return self.folder / f"audit-{number}.jsonl"


# Its parts have shorter tests: test_faults.py here, test_principals.py and test_peer_credentials.py.
@pytest.mark.long
def test_a_secured_cluster_survives_faults_and_records_each_acknowledged_write_once_with_its_principal(
    broker: Broker, tmp_path: Path
) -> None:
    site = Site(tmp_path)
    flags = ("--topic", TOPIC, "--group", TOPIC, "--request-timeout-s", "20", *site.shared())
    each = [site.own(number) for number in range(3)]
    partition = broker.folder / "data" / f"{TOPIC}-0"
    with Rig(tmp_path, *flags, broker=broker, each=each, admin=site.login("watch")) as rig:
        rig.login = site.login("rig")
        with run(rig, 30, partition) as made:
            killed = rig.primary()
            killed.kill()
            rig.primary(but=killed)
            killed.start().wait()
            made.writes_through_all()
            frozen = rig.primary()
            frozen.freeze()
            rig.primary(but=frozen)
            frozen.thaw()
            until(lambda: frozen.role == "secondary", HEAL_S, "the thawed node to know that it is replaced")
            broker.kill()
            broker.start().wait()
            refused_to_others(site, rig)
    writes = made.history.of(*WRITES)
    assert {request.kind for request in writes if request.done} == set(WRITES)
    assert list(unrecorded(made.history.of(*Kind), [recorded(site.audit(node)) for node in range(3)])) == []
    assert principals_of_schemas(broker) == {b"rig"}


def principals_of_schemas(broker: Broker) -> set[bytes | None]:
    """Return the principals that the records of schemas name; ``None``: a record that names none."""
    found: set[bytes | None] = set()
    for message in consumed(broker.address, TOPIC):
        if b'"keytype":"SCHEMA"' in (message.key() or b""):
            found.add(dict(message.headers() or ()).get(PRINCIPAL_HEADER_NAME))
    return found


def refused_to_others(site: Site, rig: Rig) -> None:
    """Check that other users, and none, are still refused, once the node can read the log again."""
    for name, status in (("other", 403), ("nobody", 401)):
        with closing(Line(rig.nodes[0].port, login=site.login(name))) as line:
            until(partial(is_refused, line, status), HEAL_S, f"{name} to be refused with {status}")


def is_refused(line: Line, status: int) -> bool:
    """Try to register a schema; return false if the log cannot be confirmed at the moment."""
    said, _ = line.ask("POST", "/subjects/t-other/versions", {"schema": '"string"'})
    assert said["status"] in (status, 503)
    return bool(said["status"] == status)
