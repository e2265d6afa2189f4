"""A Kerberos KDC, that of MIT, and a broker that believes its tickets."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from deploy.local.broker import Broker
from deploy.local.process import Process, free_port, listens

REALM = "REGISTRY.EXAMPLE"
SERVICE, HOST = "kafka", "localhost"
TICKET_S, SESSION_S = 4, 2
# Debian installs the programs outside the PATH of ordinary users.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"

_CLIENTS = """
[libdefaults]
 default_realm = {realm}
 dns_lookup_realm = false
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_SERVER = """
[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  max_life = {lifetime_s}s
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
"""


class Realm(Process):
    """A KDC whose tickets are valid for :data:`TICKET_S`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        names = {"realm": REALM, "port": self.port, "folder": folder, "lifetime_s": TICKET_S}
        (folder / "krb5.conf").write_text(_CLIENTS.format(**names))
        (folder / "kdc.conf").write_text(_SERVER.format(**names))
        super().__init__(f"the KDC on {self.port}", [_program("krb5kdc"), "-n"], folder / "output.txt")
        self.environment = self.client() | {"KRB5_KDC_PROFILE": str(folder / "kdc.conf")}
        if not (folder / "principal").exists():
            self._run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)

    def client(self, folder: Path | None = None, keytab: Path | None = None) -> dict[str, str]:
        """Return the environment of a process that uses this realm and keeps its tickets in ``folder``."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("KRB5")}
        return own | {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5CCNAME": str((folder or self.folder) / "tickets"),
            "KRB5_CLIENT_KTNAME": str(keytab or self.folder / "none"),
        }

    def ready(self) -> bool:
        return listens(self.port)

    def keytab(self, principal: str) -> Path:
        """Return the file of the key of a new principal."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "addprinc", "-randkey", principal)
        self._run("kadmin.local", "ktadd", "-k", str(path), principal)
        return path

    def remove(self, principal: str) -> None:
        """Forget a principal."""
        self._run("kadmin.local", "delprinc", "-force", principal)

    def logins(self, principal: str) -> int:
        """Return how often a principal has got a ticket by its key."""
        log = (self.folder / "kdc.log").read_text()
        return log.count(f" {principal}@{REALM} for krbtgt/{REALM}@{REALM}")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [_program(program), *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )


class KerberosBroker(Broker):
    """A broker that wants tickets at ``kerberos``, and ends sessions after :data:`SESSION_S`."""

    def __init__(self, folder: Path, realm: Realm) -> None:
        super().__init__(folder)
        port = free_port()
        self.kerberos = f"{HOST}:{port}"
        self.command.insert(1, f"-Djava.security.krb5.conf={realm.folder / 'krb5.conf'}")
        principal = f"{SERVICE}/{HOST}"
        login = "listener.name.kerberos.gssapi"
        self.settings = {
            "listeners": (
                f"PLAINTEXT://{self.address},KERBEROS://127.0.0.1:{port},"
                f"CONTROLLER://127.0.0.1:{self.controller_port}"
            ),
            "advertised.listeners": f"PLAINTEXT://{self.address},KERBEROS://{self.kerberos}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,KERBEROS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "sasl.kerberos.service.name": SERVICE,
            "listener.name.kerberos.sasl.enabled.mechanisms": "GSSAPI",
            f"{login}.sasl.jaas.config": (
                "com.sun.security.auth.module.Krb5LoginModule required isInitiator=false storeKey=true "
                f'useKeyTab=true keyTab="{realm.keytab(principal)}" principal="{principal}@{REALM}";'
            ),
            f"{login}.connections.max.reauth.ms": str(SESSION_S * 1000),
        }


def _program(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    assert found, f"{name} is missing; make test-long names the package"
    return found
