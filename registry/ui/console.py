"""The console at ``/ui`` as an ASGI application: static files that everyone may load.

The page asks the API like any other client, so the API is what is guarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.types import Scope, Send

from .files import PAGE, STATIC, UNBUILT, StaticFile, StaticFiles, load

Header = tuple[bytes, bytes]

ROOT: Final = "ui"
# The label of all its requests in metrics.
ROUTE: Final = "/ui"
_YEAR: Final = b"public, max-age=31536000, immutable"
_CHECKED: Final = b"no-cache"
# ``connect-src`` gets the servers that sign users in.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src {}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_PROTECTION: Final[tuple[Header, ...]] = (
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Console:
    """Serves the static files; they are read at the first request, once for each process."""

    def __init__(self, connect_to: Iterable[str] = (), folder: Path = STATIC, formats: bytes = b"[]") -> None:
        """Serve the files in ``folder``.

        ``connect_to``: origins of other servers that the page may ask. ``formats``: the schema formats, as
        :func:`registry.domain.schemas.describe_formats` returns them.
        """
        self._folder = folder
        self._formats = formats
        policy = _POLICY.format(" ".join(("'self'", *connect_to)))
        self._headers = (*_PROTECTION, (b"content-security-policy", policy.encode()))
        self._loading: asyncio.Task[StaticFiles] | None = None

    def serves(self, scope: Scope, segments: tuple[str, ...]) -> bool:
        """Return true if a request is for the console, or a browser that opens the registry's root."""
        if segments:
            return segments[0] == ROOT
        return scope["method"] in ("GET", "HEAD") and _is_navigation(dict(scope["headers"]))

    async def serve(self, scope: Scope, segments: tuple[str, ...], send: Send) -> None:
        """Answer a request with these segments of its path."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        if scope["method"] not in ("GET", "HEAD"):
            await self._send(scope, send, HTTPStatus.METHOD_NOT_ALLOWED, ((b"allow", b"GET, HEAD"),))
        elif segments[1:] or (segments and raw.partition(b"?")[0].endswith(b"/")):
            await self._send_file(scope, segments[1:], send)
        else:
            # Relative, so that it also leads there behind a proxy that adds a prefix.
            await self._send(scope, send, HTTPStatus.TEMPORARY_REDIRECT, ((b"location", b"ui/"),))

    async def _send_file(self, scope: Scope, below: tuple[str, ...], send: Send) -> None:
        static = await self._static()
        name, cache = "/".join(below) or PAGE, _CHECKED
        if below[1:] and name not in static.files:
            # Below the folder whose name changes with the files. Another name comes from a node of another
            # version during an upgrade; these files are the best there is, and are not kept.
            cache = _YEAR if below[0] == static.folder else _CHECKED
            name = "/".join(below[1:])
        if not static.complete and name == PAGE:
            await self._send(scope, send, HTTPStatus.SERVICE_UNAVAILABLE, file=static.files[UNBUILT])
            return
        file = static.files.get(name)
        if file is None:
            await self._send(scope, send, HTTPStatus.NOT_FOUND)
            return
        headers = ((b"cache-control", cache), (b"etag", file.etag))
        given = dict(scope["headers"])
        if _matches(given.get(b"if-none-match", b""), file.etag):
            await self._send(scope, send, HTTPStatus.NOT_MODIFIED, headers)
        else:
            await self._send(scope, send, HTTPStatus.OK, headers, file)

    async def _static(self) -> StaticFiles:
        if self._loading is None or (self._loading.done() and self._loading.exception()):
            self._loading = asyncio.create_task(asyncio.to_thread(load, self._folder, self._formats))
        return await asyncio.shield(self._loading)

    async def _send(
        self,
        scope: Scope,
        send: Send,
        status: HTTPStatus,
        more: tuple[Header, ...] = (),
        file: StaticFile | None = None,
    ) -> None:
        body, headers = b"", [*self._headers, *more]
        if file is not None:
            packed = _takes_gzip(dict(scope["headers"]))
            body = file.packed if packed else file.body
            headers += [(b"content-type", file.media_type), (b"vary", b"accept-encoding")]
            headers += [(b"content-encoding", b"gzip")] if packed else []
        elif status >= HTTPStatus.BAD_REQUEST:
            body = f"{status.phrase}\n".encode()
            headers.append((b"content-type", b"text/plain; charset=utf-8"))
        if status != HTTPStatus.NOT_MODIFIED:
            headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status.value, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _is_navigation(headers: Mapping[bytes, bytes]) -> bool:
    """Return true if a browser sends this to show a page.

    Accept alone does not say so: Java's HTTP client, on which Confluent's clients rest, sends ``text/html``
    too. Only browsers send the other two, the second also without TLS.
    """
    asked = headers.get(b"sec-fetch-mode") == b"navigate" or headers.get(b"upgrade-insecure-requests") == b"1"
    return asked and b"text/html" in headers.get(b"accept", b"")


def _takes_gzip(headers: Mapping[bytes, bytes]) -> bool:
    for each in headers.get(b"accept-encoding", b"").lower().split(b","):
        coding, _, quality = each.replace(b" ", b"").partition(b";")
        if coding == b"gzip":
            return quality.rstrip(b"0") not in (b"q=", b"q=0.")
    return False


def _matches(wanted: bytes, etag: bytes) -> bool:
    plain = etag.removeprefix(b"W/")
    return any(each.strip() in (b"*", etag, plain) for each in wanted.split(b","))
