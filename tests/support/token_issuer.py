"""An issuer of bearer tokens: signs them with its keys, and publishes these over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from tests.support.loopback_server import LoopbackServer

AUDIENCE = "registry"
_CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}


class IssuerKey:
    """A key pair with its id."""

    def __init__(self, key_id: str | None, algorithm: str = "ES256", rsa_bits: int = 2048) -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self.private: Any
        if algorithm in _CURVES:
            self.private = ec.generate_private_key(_CURVES[algorithm]())
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        else:
            self.private = rsa.generate_private_key(65537, rsa_bits)

    def public(self, **members: Any) -> dict[str, Any]:
        """Return the public key as a JWK; ``members`` are added, or removed if they are ``None``."""
        written: Any = get_default_algorithms()[self.algorithm].to_jwk(self.private.public_key())
        found = {"kid": self.key_id, "use": "sig", "alg": self.algorithm} | json.loads(written) | members
        return {name: value for name, value in found.items() if value is not None}


def claims(issuer: str, **changed: Any) -> dict[str, Any]:
    """Return the claims of a valid token; ``changed`` are added, or removed if they are ``None``."""
    now = int(time.time())
    found = {
        "iss": issuer, "aud": AUDIENCE, "sub": "alice", "iat": now, "nbf": now, "exp": now + 600
    } | changed  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def signed(key: IssuerKey, said: dict[str, Any], **headers: Any) -> str:
    """Return a token of ``key``."""
    kid = {} if key.key_id is None else {"kid": key.key_id}
    return jwt.encode(said, key.private, algorithm=key.algorithm, headers=kid | headers)


class Issuer(LoopbackServer):
    """An HTTP server with the keys of an issuer; ``answer`` may be replaced to answer something else."""

    def __init__(self) -> None:
        self.keys = [IssuerKey("first")]
        self.requests = 0
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self._publish
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}"
        self.jwks = f"{self.url}/keys"

    def get(self, request: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        self.answer(request)

    def rotate(self, key: IssuerKey) -> None:
        """Sign with another key from now on, and publish no other."""
        self.keys = [key]

    def token(self, **changed: Any) -> str:
        """Return a valid token of the first key, with these claims changed."""
        return signed(self.keys[0], claims(self.url, **changed))

    def document(self) -> bytes:
        """Return the set of keys."""
        return json.dumps({"keys": [key.public() for key in self.keys]}).encode()

    def _publish(self, handler: BaseHTTPRequestHandler) -> None:
        body = self.document()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
