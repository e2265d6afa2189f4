"""An OpenID Connect issuer for pages: code flow with PKCE, refresh tokens, and a form to sign in."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.loopback_server import LoopbackServer
from tests.support.token_issuer import IssuerKey, claims, signed

CLIENT_ID = "console"


class OidcIssuer(LoopbackServer):
    """An issuer on loopback; attributes change how it answers."""

    def __init__(self) -> None:
        self.key = IssuerKey("first")
        self.lifetime_s = 600
        self.refreshes = True  # grants refresh tokens, each for one use
        self.response_modes = ["query", "fragment"]
        self.changed_claims: dict[str, Any] = {}  # of ID tokens
        self.granted: list[str] = []  # grant types of the tokens so far
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh: dict[str, str] = {}
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}/realm"

    def get(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        match parts.path.removeprefix("/realm"):
            case "/.well-known/openid-configuration":
                _send(request, 200, {
                    "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/keys",
                    "response_modes_supported": self.response_modes,
                })  # fmt: skip
            case "/keys":
                _send(request, 200, {"keys": [self.key.public()]})
            case "/authorize":
                page = (
                    "<!doctype html><title>Issuer</title><link rel=icon href=data:,><form method=post>"
                    f"<input type=hidden name=asked value='{html.escape(parts.query)}'>"
                    "<label>Who are you? <input name=user></label><button>Go on</button></form>"
                )
                _send(request, 200, page)
            case _:
                _send(request, 404, {})

    def post(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if urlsplit(request.path).path == "/realm/authorize":
            self._authorize(request, form)
            return
        subject, nonce = "", None
        if form["grant_type"] == "authorization_code":
            asked = self._codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            sent = {"code_challenge": challenge, "redirect_uri": form["redirect_uri"]}
            if asked and asked.items() >= sent.items():
                subject, nonce = asked["user"], asked["nonce"]
        elif form["grant_type"] == "refresh_token":
            subject = self._refresh.pop(form["refresh_token"], "")
        if not subject or form["client_id"] != CLIENT_ID:
            _send(request, 400, {"error": "invalid_grant"})
            return
        self.granted.append(form["grant_type"])
        _send(request, 200, self._tokens(subject, nonce))

    def _authorize(self, request: BaseHTTPRequestHandler, form: dict[str, str]) -> None:
        asked = {name: values[0] for name, values in parse_qs(form["asked"]).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        answer = {"state": asked["state"], "iss": self.url}
        if form.get("user"):
            code = secrets.token_urlsafe(16)
            self._codes[code] = asked | {"user": form["user"]}
            answer["code"] = code
        else:
            answer |= {"error": "access_denied", "error_description": "Nobody signed in"}
        mark = "#" if asked.get("response_mode") == "fragment" else "?"
        request.send_response(303)
        request.send_header("Location", f"{asked['redirect_uri']}{mark}{urlencode(answer)}")
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _tokens(self, subject: str, nonce: str | None) -> dict[str, Any]:
        exp = int(time.time()) + self.lifetime_s
        access = claims(self.url, sub=subject, exp=exp)
        said = {"sub": subject, "aud": CLIENT_ID, "nonce": nonce, "exp": exp} | self.changed_claims
        identity = claims(self.url, **said)
        found = {
            "access_token": signed(self.key, access), "id_token": signed(self.key, identity),
            "token_type": "Bearer", "expires_in": self.lifetime_s,
        }  # fmt: skip
        if self.refreshes:
            refresh = found["refresh_token"] = secrets.token_urlsafe(16)
            self._refresh[refresh] = subject
        return found


def _send(request: BaseHTTPRequestHandler, status: int, body: Any) -> None:
    page = isinstance(body, str)
    data = body.encode() if page else json.dumps(body).encode()
    request.send_response(status)
    request.send_header("Content-Type", "text/html" if page else "application/json")
    if not page:
        request.send_header("Access-Control-Allow-Origin", "*")
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)
