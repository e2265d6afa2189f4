"""A token endpoint as a real process: OAuth 2.0 client credentials, answered with signed JSON Web Tokens."""

from __future__ import annotations

import base64
import json
import ssl
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import httpx
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from deploy.local.process import Process, free_port, listens
from tests.support.running import ROOT

CLIENT_ID, CLIENT_SECRET, AUDIENCE = "registrar", "a client's secret", "kafka"
_KEY_ID = "key-1"


class TokenEndpoint(Process):
    """Issues tokens of ``lifetime_s``; ``jwks`` is the file by which brokers check them.

    ``certificate`` names a file with a key and a certificate, to serve HTTPS.
    """

    def __init__(self, folder: Path, *, certificate: str = "", lifetime_s: float = 300.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_port()
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}/oauth2/token"
        self.jwks = folder / "jwks.json"
        if not self.jwks.exists():
            _write_keys(folder)
        self.answer(lifetime_s=lifetime_s)
        super().__init__(
            f"the token endpoint on {self.port}",
            [sys.executable, "-m", "tests.support.token_endpoint", str(folder), str(self.port), certificate],
            folder / "output.txt",
        )
        self.environment = {"PYTHONPATH": str(ROOT)}

    def answer(self, **behavior: Any) -> None:
        """Answer differently from now on, see the handler below."""
        written = self.folder / "behavior.new"
        written.write_text(json.dumps({"lifetime_s": 300.0} | behavior))
        written.rename(self.folder / "behavior.json")

    def ready(self) -> bool:
        return listens(self.port)

    def fetch(self) -> str:
        """Return a new token."""
        form = {"grant_type": "client_credentials"}
        reply = httpx.post(self.url, data=form, auth=(CLIENT_ID, CLIENT_SECRET), timeout=30)
        token: str = reply.raise_for_status().json()["access_token"]
        return token

    @property
    def issued(self) -> int:
        """The number of tokens so far."""
        return self.output.count("issued")

    def __enter__(self) -> Self:
        return self.start().wait()


def _write_keys(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    numbers = key.public_key().public_numbers()
    public = {name: _base64(value.to_bytes((value.bit_length() + 7) // 8)) for name, value in (
        ("n", numbers.n), ("e", numbers.e),
    )}  # fmt: skip
    keys = [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, **public}]
    (folder / "jwks.json").write_text(json.dumps({"keys": keys}))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(folder: Path, claims: dict[str, Any]) -> str:
    """A token with these claims."""
    key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    header = {"alg": "RS256", "kid": _KEY_ID, "typ": "JWT"}
    text = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
    return f"{text}.{_base64(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class _Handler(BaseHTTPRequestHandler):
    folder: Path

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        behavior = json.loads((self.folder / "behavior.json").read_text())
        if behavior.get("silent"):
            self.rfile.read()
            return
        client = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if "status" in behavior:
            self._reply(behavior["status"], behavior.get("body", {}))
        elif self.headers["Authorization"] != f"Basic {client}":
            self._reply(401, {"error": "invalid_client", "error_description": "unknown client"})
        elif form["grant_type"] != ["client_credentials"]:
            self._reply(400, {"error": "unsupported_grant_type"})
        else:
            self._reply(200, self._token(behavior, form.get("scope", [""])[0]))
            print("issued", flush=True)

    def _token(self, behavior: dict[str, Any], scope: str) -> dict[str, Any]:
        now = behavior.get("now", time.time())
        claims = {
            "iss": f"http://{self.headers['Host']}",
            "sub": CLIENT_ID,
            "aud": behavior.get("audience", AUDIENCE),
            "iat": now,
            "exp": now + behavior["lifetime_s"],
        }
        token = signed(self.folder, claims | ({"scope": scope} if scope else {}))
        return {"access_token": token, "token_type": "Bearer", "expires_in": behavior["lifetime_s"]}

    def _reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        # Clients of some tests give up before the answer.
        with suppress(OSError):
            self.end_headers()
            self.wfile.write(data)


if __name__ == "__main__":
    _Handler.folder = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), _Handler)
    if certificate := sys.argv[3]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
