"""Hooks of MkDocs: the site has the pages of the whole repository, and the API's reference.

A page keeps its path in the repository as its source, so links between pages are those that work on GitHub.
Whatever they lead to is taken along: pages, pictures and single files. Links to folders become plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site.api_page import api_page

ROOT = Path(__file__).parent.parent.parent
GENERATED = "docs/api-reference.md"
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")
_IMAGE_OR_LINK = re.compile(r"\]\(([^)#\s]+)")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of ``docs/`` that the navigation does not name to its section of further pages."""
    named = set(_paths_in(config.nav))
    further = sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))
    if missing := [path for path in further if path not in named]:
        config.nav = [*(config.nav or ()), {"More": missing}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of ``docs/`` by the pages of the navigation and everything that they lead to."""
    kept = [file for file in files if file.src_dir != config.docs_dir]
    generated = File.generated(config, GENERATED, content=api_page())
    generated.dest_uri = _address(GENERATED)
    pages = [_file(path, config) for path in sorted(_reachable_paths(config.nav))]
    return Files([*kept, generated, *pages])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to what is not in the site into plain text."""
    at = ROOT / Path(page.file.src_uri).parent

    def shown(found: re.Match[str]) -> str:
        target = found[2]
        there = "://" in target or target.startswith("mailto:") or _within(at / target) in files.src_uris
        return found[0] if there else found[1]

    return _LINK.sub(shown, markdown)


def _reachable_paths(nav: Any) -> set[str]:
    """Return the paths of the pages in the navigation, and of all files that they lead to."""
    reached: set[str] = set()
    open_paths = [path for path in _paths_in(nav) if path != GENERATED]
    while open_paths:
        path = open_paths.pop()
        reached.add(path)
        if path.endswith(".md"):
            open_paths += [each for each in _targets(path) if each not in reached]
    return reached


def _paths_in(nav: Any) -> Iterator[str]:
    for each in nav.values() if isinstance(nav, dict) else nav:
        if isinstance(each, str):
            yield each
        else:
            yield from _paths_in(each)


def _targets(path: str) -> Iterator[str]:
    text = _FENCED.sub("", (ROOT / path).read_text(encoding="utf-8"))
    for target in _IMAGE_OR_LINK.findall(text):
        found = (ROOT / path).parent / target
        if "://" not in target and found.is_file():
            yield _within(found)


def _within(path: Path) -> str:
    resolved = path.resolve()
    return str(resolved.relative_to(ROOT)) if resolved.is_relative_to(ROOT) else ""


def _file(path: str, config: MkDocsConfig) -> File:
    return File(path, str(ROOT), config.site_dir, use_directory_urls=True, dest_uri=_address(path))


def _address(path: str) -> str:
    """Return where a file is in the site: pages of ``docs/`` are at its top."""
    shorter = path.removeprefix("docs/")
    if not path.endswith(".md"):
        return shorter
    name = re.sub(r"(^|/)(index|README)$", "", shorter.removesuffix(".md"))
    return f"{name}/index.html".lstrip("/")
