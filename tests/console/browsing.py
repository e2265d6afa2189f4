"""Pages of the console in the system's Chromium, watched for what no page may do."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Request, ViewportSize

from tests.support.running import ROOT

# The first one that is installed. Debian's shell without a window needs a third of the others' CPU time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
AXE = ROOT / "registry" / "ui" / "node_modules" / "axe-core" / "axe.min.js"
# How long tests wait for what a page shall show: with a load of 20, a page takes half a minute to load.
PATIENT_MS = 60_000
WIDE: ViewportSize = {"width": 1400, "height": 900}
NARROW: ViewportSize = {"width": 360, "height": 740}
# Each width and each color scheme once: axe is most of what these tests cost.
SIGHTS: tuple[tuple[ViewportSize, Literal["dark", "light"]], ...] = ((NARROW, "dark"), (WIDE, "light"))
# Reported by the browser before any script runs in the page.
_VIOLATIONS = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`))"""
_AXE_RUN = """() => axe.run(document, { resultTypes: ["violations"] })"""
_SEVERE = {"serious", "critical"}
CONDITIONS = ("if-match", "if-none-match")
# What a page may send without saying what it saw: questions, its session, and what overwrites nothing.
UNCONDITIONAL = tuple(
    re.compile(each)
    for each in (
        r"POST /(compatibility|schemas)/.*",
        r"POST /subjects/[^/]+",  # looks a schema up
        r"(POST|DELETE) /me/session",
        r"POST /associations", r"DELETE /associations/resources/[^/]+",
        r"DELETE /contexts/[^/]+",  # only without subjects
        r"POST /admin/snapshots", r"DELETE /admin/snapshots/[^/]+",
        r"POST /admin/webhooks/[^/]+/test",
        r"POST /admin/ids/release",  # only ids that no version has
        r"DELETE /usage/sources/[^/]+",  # until the next census that reads it
    )
)  # fmt: skip


def launched(playwright: Playwright) -> Browser:
    """Start the system's Chromium."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert found is not None, "the tests of the console need Chromium: make tools names the package"
    # Its sandbox needs rights that root in a container lacks.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    arguments.append("--enable-features=NetworkServiceInProcess2")  # one process less between it and servers
    return playwright.chromium.launch(executable_path=found, args=arguments)


def new_page(browser: Browser, **options: Any) -> Page:
    """Open a page of its own context: own storage and viewport. ``options``: of the context."""
    options = {"viewport": WIDE, "reduced_motion": "reduce", "service_workers": "block"} | options
    context = browser.new_context(**options)
    context.add_init_script(_VIOLATIONS)
    page = context.new_page()
    page.set_default_timeout(PATIENT_MS)
    return page


class Watch:
    """The faults of the pages of one test."""

    def __init__(self, registry: str, *others: str) -> None:
        """``registry``: its origin; ``others``: of further servers that pages may ask."""
        self._registry = urlsplit(registry).netloc
        self.hosts = {self._registry, *(urlsplit(each).netloc for each in others)}
        self._allowed: list[re.Pattern[str]] = []
        self.faults: list[str] = []

    def allow(self, pattern: str) -> None:
        """Expect faults that match, such as the browser's line about an answer with an error status."""
        self._allowed.append(re.compile(pattern))

    def page(self, browser: Browser, **options: Any) -> Page:
        """Open a page of its own context, and watch it. ``options``: of the context."""
        page = new_page(browser, **options)
        self.follow(page)
        return page

    def follow(self, page: Page) -> None:
        """Watch what a page does from now on."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._fault(f"error in the page: {error.stack or error.message}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self._fault(f"console: {message.text} {message.location.get('url', '')}")

    def _request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob") and url.netloc not in self.hosts:
            self._fault(f"asked another host: {request.url}")
        sent = f"{request.method} {url.path}"
        if (
            url.netloc == self._registry
            and request.method != "GET"
            and request.headers.keys().isdisjoint(CONDITIONS)
            and not any(each.fullmatch(sent) for each in UNCONDITIONAL)
        ):
            self._fault(f"changed what it had not looked at: {sent}")

    def _fault(self, text: str) -> None:
        self.faults.append(text)

    def check(self) -> None:
        """Fail if a page did what no page may do."""
        faults = [each for each in self.faults if not any(allowed.search(each) for allowed in self._allowed)]
        assert not faults, "\n".join(faults)


def barriers(page: Page) -> list[str]:
    """Return what axe finds serious or critical in the page as it is."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(_AXE_RUN)["violations"]
    return [
        f"{each['id']}: {each['help']}: {node['html']} {node['failureSummary']}"
        for each in found
        if each["impact"] in _SEVERE
        for node in each["nodes"]
    ]


# Widths of phones, tablets and desks; 720 is a desk of 1440 at 200 %.
WIDTHS = (390, 720, 768, 1280, 1440)
# What is wider than its place: the page itself does not scroll, only the panes within it. Tables and texts
# that are meant to be scrolled sideways have panes of their own.
_TOO_WIDE = """() => ["html", "body", "#app", "header.shell", "main", ".grid", "dialog", "dialog > .body"]
  .flatMap((each) => [...document.querySelectorAll(each)])
  .filter((pane) => pane.clientWidth > 0 && pane.scrollWidth > pane.clientWidth + 1)
  .map((pane) => `${pane.localName}.${pane.className}: ${pane.scrollWidth} > ${pane.clientWidth}: `
    + [...pane.querySelectorAll("*")]
      .filter((part) => part.getBoundingClientRect().right > pane.getBoundingClientRect().right + 1)
      .slice(0, 3).map((part) => `${part.localName}.${part.className}`).join(", "))"""


def check_widths(page: Page, widths: Iterable[int] = WIDTHS) -> None:
    """Fail if a pane of the page is wider than its place, at each of the widths."""
    before = page.viewport_size
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        found = page.evaluate(_TOO_WIDE)
        assert not found, f"{page.url} at {width} px:\n" + "\n".join(found)
    if before is not None:
        page.set_viewport_size(before)


def check_accessible(page: Page) -> None:
    """Fail if axe finds anything serious in the page, on a phone at night and on a desk at day."""
    before = page.viewport_size
    for size, scheme in SIGHTS:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        found = barriers(page)
        assert not found, f"{size['width']} px, {scheme}:\n" + "\n".join(found)
    if before is not None:
        page.set_viewport_size(before)
