"""A client of a running registry, Confluent's or another one, over one HTTP connection."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

_TIMEOUT_S = 60.0
_OK, _MISSING = 200, 404
_PAGE = 1000


class RegistryRequestFailed(Exception):
    """The registry cannot be reached, or answered with an error; the text holds its answer."""


class RegistryClient:
    """Sends GET requests to ``url``, which may contain a user and a password.

    Every request raises :class:`RegistryRequestFailed`.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RegistryRequestFailed(
                f"{url!r} is not the URL of a registry: give http://HOST:PORT or https://HOST:PORT"
            )
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT_S)
        self._shown = f"{parts.scheme}://{parts.hostname}:{self._connection.port}"
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def get(self, path: str, missing: Any = None) -> Any:
        """Return the JSON of the answer; ``missing``, if given, for a 404."""
        try:
            status, body = self._ask(path)
        except (OSError, http.client.HTTPException) as error:
            raise RegistryRequestFailed(f"{self._shown} cannot be reached: {error!r}") from error
        if status == _MISSING and missing is not None:
            return missing
        if status != _OK:
            raise RegistryRequestFailed(
                f"{self._shown}{path} answered {status}: {body[:500].decode(errors='replace')}"
            )
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RegistryRequestFailed(f"{self._shown}{path} did not answer with JSON: {error}") from error

    def _ask(self, path: str) -> tuple[int, bytes]:
        for last in (False, True):
            try:
                self._connection.request("GET", self._path + path, headers=self._headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (http.client.RemoteDisconnected, ConnectionError):
                # The connection was idle for too long; the next request opens another one.
                self._connection.close()
                if last:
                    raise
        raise AssertionError

    def subjects(self) -> list[str]:
        """Return the qualified names of all subjects of all contexts, soft-deleted ones included."""
        names: list[str] = self.get("/subjects?deleted=true&subjectPrefix=:*:")
        return names

    def version_pages(self) -> Iterator[list[dict[str, Any]]]:
        """Yield all versions of all contexts, soft-deleted ones included, page by page."""
        count = 0
        while page := self.get(f"/schemas?deleted=true&subjectPrefix=:*:&limit={_PAGE}&offset={count}"):
            yield page
            count += len(page)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
