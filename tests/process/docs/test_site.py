"""The docs as a website: it builds without a warning, all its links work, and it needs no other server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from registry import VERSION
from registry.api.routes import operations
from registry.domain.errors import ErrorKind
from tests.support.running import ROOT

# Attributes by which a page loads something on its own; an anchor is followed by people only.
LOADING = {("img", "src"), ("link", "href"), ("script", "src"), ("iframe", "src")}


class Html(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (tag, name) in LOADING:
                self.loaded.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")
            elif name == "id":
                self.anchors.add(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Html]:
    """Return all pages by their path in the site."""
    found = {f"/{path.relative_to(site)}": Html(path) for path in site.rglob("*.html")}
    return {path.removesuffix("index.html"): html for path, html in found.items()}


def targets(pages: dict[str, Html]) -> Iterator[tuple[str, str]]:
    for page, html in pages.items():
        for link in html.links + html.loaded:
            if not urlsplit(link).scheme:
                yield page, urljoin(page, link)


def test_links_within_the_site_lead_somewhere(site: Path, pages: dict[str, Html]) -> None:
    broken = []
    for page, target in targets(pages):
        path, anchor = unquote(urlsplit(target).path), unquote(urlsplit(target).fragment)
        there = path in pages or (site / path.lstrip("/")).is_file()
        if not there or (anchor and path in pages and anchor not in pages[path].anchors):
            broken.append((page, target))
    assert not broken


def test_nothing_is_loaded_from_other_servers(site: Path, pages: dict[str, Html]) -> None:
    assert pages
    assert not [each for html in pages.values() for each in html.loaded if urlsplit(each).netloc]
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert "@import" not in text
        assert "url(http" not in text


async def no_metrics() -> bytes:
    return b""


def test_the_reference_of_the_api_has_every_operation(site: Path) -> None:
    text = (site / "api-reference" / "index.html").read_text(encoding="utf-8")
    for operation in operations(VERSION, no_metrics):
        assert f"<code>{operation.method} {operation.path}</code>" in text
        for kind in operation.errors:
            assert isinstance(kind, ErrorKind)
            assert str(kind.code) in text


def test_every_page_is_in_the_site(pages: dict[str, Html]) -> None:
    names = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert {f"/{name}/" for name in names} <= set(pages)
    assert {"/", "/deploy/", "/deploy/MIGRATION/", "/ARCHITECTURE/", "/bench/RESULTS/"} <= set(pages)
