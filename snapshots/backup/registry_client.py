"""Questions to a registry that runs, over one HTTP connection."""

from __future__ import annotations

import base64
import http.client
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

_TIMEOUT_S = 60.0
_OK, _MISSING = 200, 404


class NoAnswer(Exception):
    """The registry cannot be asked, or answers with an error; the text says what it said."""


class Requests:
    """GET requests to ``url``, which may bring a user and a password. Raises :class:`NoAnswer`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NoAnswer(f"{url!r} is no URL of a registry: http://HOST:PORT or https://HOST:PORT")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT_S)
        self._shown = f"{parts.scheme}://{parts.hostname}:{self._connection.port}"
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def get(self, path: str, missing: Any = None) -> Any:
        """The JSON of the answer; ``missing``, if it is given, where there is none (404)."""
        try:
            status, body = self._ask(path)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{self._shown} cannot be asked: {error!r}") from error
        if status == _MISSING and missing is not None:
            return missing
        if status != _OK:
            raise NoAnswer(f"{self._shown}{path} answered {status}: {body[:500].decode(errors='replace')}")
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise NoAnswer(f"{self._shown}{path} did not answer with JSON: {error}") from error

    def _ask(self, path: str) -> tuple[int, bytes]:
        for last in (False, True):
            try:
                self._connection.request("GET", self._path + path, headers=self._headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (http.client.RemoteDisconnected, ConnectionError):
                # One that was kept open for too long; the next request opens another.
                self._connection.close()
                if last:
                    raise
        raise AssertionError

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
