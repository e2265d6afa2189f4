"""The console's static files, as they are sent."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from posixpath import dirname, normpath
from typing import Final, NamedTuple

STATIC: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"
# Shown instead of the page if the libraries were not bundled, which needs npm.
UNBUILT: Final = "unbuilt.html"
BUNDLES: Final = ("vendor.js", "vendor-editor.js")
# Replaced in pages: the folder whose name changes with every change of a file, and the modules that the page
# needs at once, so that browsers fetch them together and not one after another as they find the imports.
_FOLDER: Final = b"{assets}"
_MODULES: Final = b"{modules}"
# Replaced too: what the page has to know about schema formats, as JSON.
_FORMATS: Final = b"{formats}"
_LINK: Final = b'<link rel="modulepreload" href="%b/%b">'
_ENTRIES: Final = ("app.js", "subjects/view.js")
_IMPORT: Final = re.compile(rb"""^(?:import|export)\b[^"';]*["'](\.{1,2}/[^"']+)["'];""", re.MULTILINE)
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


def is_complete(folder: Path = STATIC) -> bool:
    """Return true if the libraries were bundled."""
    return all((folder / each).is_file() for each in BUNDLES)


def load(folder: Path = STATIC, formats: bytes = b"[]") -> StaticFiles:
    """Read and compress all files; this takes a moment. Raises :class:`OSError`.

    ``formats``: see :class:`.console.Console`.
    """
    bodies = {
        str(PurePosixPath(path.relative_to(folder))): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }
    name = _digest(part for path, body in bodies.items() for part in (path.encode(), body))[:16]
    linked = b"\n".join(_LINK % (_FOLDER, each) for each in _collect_imports(bodies))
    # In a page, JSON must not end the element that it is in.
    formats = formats.replace(b"<", b"\\u003c")
    pages = {
        path: body.replace(_MODULES, linked).replace(_FOLDER, name.encode()).replace(_FORMATS, formats)
        for path, body in bodies.items()
        if path.endswith(".html")
    }
    files = {path: _static_file(path, body) for path, body in (bodies | pages).items()}
    return StaticFiles(files, name, all(each in bodies for each in BUNDLES))


def _collect_imports(bodies: Mapping[str, bytes]) -> list[bytes]:
    """Return the modules that the entries import, directly or not, and themselves."""
    found: dict[str, None] = {}
    rest = [each for each in _ENTRIES if each in bodies]
    while rest:
        module = rest.pop()
        found[module] = None
        named = (each.decode() for each in _IMPORT.findall(bodies[module]))
        paths = (normpath(f"{dirname(module) or '.'}/{each}") for each in named)
        rest += (each for each in paths if each in bodies and each not in found)
    return [each.encode() for each in sorted(found)]


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
