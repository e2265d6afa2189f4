"""The console at ``/ui``: static files that everyone may load, and the ASGI application that serves them.

The page asks the API like any other client, so the API is what is guarded.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from registry.ui.bundles import bundles_of

if TYPE_CHECKING:
    from starlette.types import Scope, Send

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
STATIC: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"
# Shown instead of the page if the libraries were not bundled, which needs npm.
UNBUILT: Final = "unbuilt.html"
BUNDLES: Final = ("vendor.js", "vendor-editor.js")
# Replaced in pages: the folder whose name changes with every change of a file.
_FOLDER: Final = b"{assets}"
# Replaced too: what the page has to know about schema formats, as JSON.
_FORMATS: Final = b"{formats}"
_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}


class StaticFile(NamedTuple):
    """A file, plain and compressed."""

    body: bytes
    packed: bytes  # by gzip
    media_type: bytes
    etag: bytes


class StaticFiles(NamedTuple):
    """All files by their paths below the static folder."""

    files: dict[str, StaticFile]
    folder: str  # the folder that pages name; its files never change
    complete: bool  # false if the libraries are missing


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
            self._loading = asyncio.create_task(asyncio.to_thread(load_files, self._folder, self._formats))
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


def is_complete(folder: Path = STATIC) -> bool:
    """Return true if the libraries were bundled."""
    return all((folder / each).is_file() for each in BUNDLES)


def load_files(folder: Path = STATIC, formats: bytes = b"[]") -> StaticFiles:
    """Read and compress all files; this takes a moment. Raises :class:`OSError`.

    ``formats``: see :class:`Console`.
    """
    bodies = {
        str(PurePosixPath(path.relative_to(folder))): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }
    bodies |= bundles_of(bodies)
    name = _digest(part for path, body in bodies.items() for part in (path.encode(), body))[:16]
    # In a page, JSON must not end the element that it is in.
    formats = formats.replace(b"<", b"\\u003c")
    pages = {
        path: body.replace(_FOLDER, name.encode()).replace(_FORMATS, formats)
        for path, body in bodies.items()
        if path.endswith(".html")
    }
    files = {path: _static_file(path, body) for path, body in (bodies | pages).items()}
    return StaticFiles(files, name, all(each in bodies for each in BUNDLES))


def _static_file(path: str, body: bytes) -> StaticFile:
    # Weak, because the same tag names the plain and the compressed form.
    etag = b'W/"%s"' % _digest([body])[:32].encode()
    return StaticFile(body, gzip.compress(body, mtime=0), _TYPES[PurePosixPath(path).suffix], etag)


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()
