"""Fixtures of the tests of the console: a browser, a registry for each module, and watched pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from registry.domain.log_format.records import Entry
from registry.ui.console import BUNDLES, STATIC

from .browsing import PATIENT_MS, Watch, launched
from .kept_pages import KeptPage, KeptPages
from .places import Place, Serving, alone, clustered


# Playwright occupies the thread's event loop while it runs, so it ends with this folder's tests.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Start one browser for all tests of the console."""
    expect.set_options(timeout=PATIENT_MS)
    assert all((STATIC / each).exists() for each in BUNDLES), "run make console first"
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def kept_pages(browser: Browser) -> KeptPages:
    """Return the pages that tests use one after another."""
    return KeptPages(browser)


@pytest.fixture(scope="module")
def flags() -> tuple[str, ...]:
    """Return further flags of the module's registry; modules override this."""
    return ()


@pytest.fixture(scope="package")
def serving(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Serving:
    """Return a function that runs a registry on a log with certain ``entries``, and with further flags."""
    nodes: int = request.config.getoption("--console-nodes")
    kafka = request.getfixturevalue("kafka") if nodes else None

    def serve(*flags: str, entries: Iterable[Entry] = ()) -> AbstractContextManager[Place]:
        folder = tmp_path_factory.mktemp("console")
        if kafka is None:
            return alone(folder, *flags, entries=entries)
        return clustered(folder, kafka, nodes, *flags, entries=entries)

    return serve


@pytest.fixture(scope="module")
def served(flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Run a registry with the ``flags`` for the tests of one module, always alone."""
    with alone(tmp_path_factory.mktemp("console"), *flags) as place:
        yield place


@pytest.fixture(scope="package")
def shared(serving: Serving) -> Iterator[Place]:
    """Run a registry for modules whose tests keep to subjects of their own."""
    with serving() as place:
        yield place


@pytest.fixture
def watch(served: Place) -> Iterator[Watch]:
    """Return what watches the pages of one test, and check it at the end."""
    watch = Watch(served.url)
    yield watch
    watch.check()


@pytest.fixture
def opened(
    watch: Watch, browser: Browser, served: Place, kept_pages: KeptPages
) -> Iterator[Callable[..., Page]]:
    """Return a function that opens an address of the console in a page of its own; empty: as it starts.

    With options of a context, it is a new one; a ``viewport`` does not need one.
    """
    own: list[Page] = []
    kept: list[KeptPage] = []

    def open_page(address: str = "/subjects", **options: Any) -> Page:
        if options.keys() <= {"viewport"}:
            kept.append(kept_pages.take(watch, **options))
            page = kept[-1].page
        else:
            page = watch.page(browser, **options)
            own.append(page)
        page.goto(f"{served.url}/ui/" + (f"#{address}" if address else ""))
        return page

    yield open_page
    for page in own:
        page.context.close()
    for each in kept:
        kept_pages.give_back(each, served.url)
