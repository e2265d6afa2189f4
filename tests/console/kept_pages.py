"""Pages that tests of the console use one after another, in the same processes of the browser.

Starting these processes is two thirds of what a page of its own costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Browser, Error, Page, ViewportSize

from .browsing import WIDE, Watch, new_page

# A file of the console in which no script runs.
QUIET = "/ui/icon.svg"
# Calls whose effect stays in a page as long as it lives, and so does a clock that is not the system's.
LASTING = ("add_init_script", "expose_binding", "expose_function", "set_extra_http_headers")
_HAS_CLOCK = "() => '__pwClock' in globalThis"
_FORGET = "() => { localStorage.clear(); sessionStorage.clear(); }"


class KeptPage:
    """One page, with what a test has added to it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.lasting = False
        self._listeners: list[tuple[str, Callable[..., Any]]] = []
        self._on = page.on
        setattr(page, "on", self.listen)  # noqa: B010 (a method, as mypy sees it)
        for name in LASTING:
            setattr(page, name, self._noted(getattr(page, name)))

    def listen(self, event: Any, listener: Callable[..., Any]) -> None:
        """Add a listener that is removed after the test."""
        self._listeners.append((event, listener))
        self._on(event, listener)

    def _noted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            self.lasting = True
            return call(*arguments, **named)

        return noted

    def clear(self, url: str) -> bool:
        """Remove what a test of the console at ``url`` has left; return false if something remains."""
        page, context = self.page, self.page.context
        for event, listener in self._listeners:
            page.remove_listener(event, listener)
        self._listeners.clear()
        try:
            if self.lasting or page.evaluate(_HAS_CLOCK):
                return False
            for other in context.pages:
                if other is not page:
                    other.close()
            page.unroute_all()
            page.mouse.move(0, 0)
            page.goto(url + QUIET)
            page.evaluate(_FORGET)
            context.clear_cookies()
            page.emulate_media(media="null", color_scheme="light")
        except Error:  # The server, or the page itself, has gone.
            return False
        return True


class KeptPages:
    """The pages that wait for the next test."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._waiting: list[KeptPage] = []

    def take(self, watch: Watch, viewport: ViewportSize = WIDE) -> KeptPage:
        """Return a page with storage of its own, and nothing in it."""
        kept = self._waiting.pop() if self._waiting else KeptPage(new_page(self._browser))
        kept.page.set_viewport_size(viewport)
        watch.follow(kept.page)
        return kept

    def give_back(self, kept: KeptPage, url: str) -> None:
        """Keep a page that a test of the console at ``url`` has used, if nothing of the test remains."""
        if kept.clear(url):
            self._waiting.append(kept)
        else:
            kept.page.context.close()
