"""A registry that only serves clients with a name, over TLS, and those who know it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.certificates import Authority
from tests.support.running import Registry, free_port
from tests.support.token_endpoint import AUDIENCE, CLIENT_ID, TokenEndpoint

# Of the password "secret", with parameters that make it fast.
_SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
WRITER, READER, OPERATOR, WRONG = "wanda:secret", "rita:secret", "olga:secret", "wanda:wrong"
STORE_PASSWORD = "changeit"
_USERS = ("wanda", "rita", "olga")
_RULES = f"""
[[allow]]
principal = ["wanda", "CN=walter", "{CLIENT_ID}"]
role = "developer"
subjects = "*"

[[allow]]
principal = ["wanda", "CN=walter", "{CLIENT_ID}"]
operations = ["delete"]
subjects = "*"

[[allow]]
principal = ["rita", "CN=ruth"]
role = "reader"
subjects = "*"

[[allow]]
principal = ["olga", "CN=oscar"]
role = "operator"
subjects = "*"
"""


class Secured:
    """The registry's https address, its CA, the certificates of clients, and a token endpoint."""

    def __init__(self, folder: Path, tokens: TokenEndpoint) -> None:
        self.folder, self.tokens = folder, tokens
        self.authority = Authority()
        self.ca = str(self.authority.write(folder, "ca"))
        self.port = free_port()
        self.url = f"https://localhost:{self.port}"

    def certificate(self, name: str) -> tuple[str, str]:
        """Return the files of a client's certificate and key."""
        certificate, key = self.authority.issue(f"CN={name}").write(self.folder, name)
        return str(certificate), str(key)

    def java_stores(self, name: str = "") -> dict[str, str]:
        """Return the settings of a Java client that trusts the CA and, with ``name``, has a certificate."""
        trusted = self.authority.java_truststore(STORE_PASSWORD)
        settings = _store("truststore", self.folder / "ca.p12", trusted)
        if name:
            both = self.authority.issue(f"CN={name}").pkcs12(STORE_PASSWORD)
            settings |= _store("keystore", self.folder / f"{name}.p12", both)
            settings["schema.registry.ssl.key.password"] = STORE_PASSWORD
        return settings

    @contextmanager
    def serve(self) -> Iterator[None]:
        """Run the registry for a ``with`` block."""
        (self.folder / "users").write_text("".join(f"{name}:{_SECRET}\n" for name in _USERS))
        (self.folder / "rules.toml").write_text(_RULES)
        certificate, key = self.authority.issue().write(self.folder, "server")
        plain, token_url = free_port(), urlsplit(self.tokens.url)
        registry = Registry(
            self.folder / "data",
            *("--listeners", f"http://127.0.0.1:{plain},https://127.0.0.1:{self.port}"),
            *("--tls-certificate", str(certificate), "--tls-key", str(key)),
            *("--tls-client-auth", "wanted", "--tls-client-ca", self.ca),
            *("--users", str(self.folder / "users"), "--rules", str(self.folder / "rules.toml")),
            *("--jwt-jwks", str(self.tokens.jwks), "--jwt-audience", AUDIENCE),
            *("--jwt-issuer", f"http://{token_url.netloc}", "--readers", "1"),
            port=plain,
        )
        try:
            registry.wait()
            yield
            assert registry.stop() == 0, registry.output
        finally:
            registry.kill()


def _store(kind: str, path: Path, content: bytes) -> dict[str, str]:
    path.write_bytes(content)
    prefix = f"schema.registry.ssl.{kind}"
    return {f"{prefix}.type": "PKCS12", f"{prefix}.location": str(path), f"{prefix}.password": STORE_PASSWORD}
