"""Registries that verbs on folders read and write, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.running import PATIENT, Registry


class Place:
    """A registry, and what is asked of it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=PATIENT)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def register(self, subject: str, text: str, **more: Any) -> None:
        self.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text} | more)

    def versions(self, prefix: str = ":*:") -> list[tuple[str, int, int, bool]]:
        found = self.ask("GET", f"/schemas?deleted=true&subjectPrefix={quote(prefix)}")
        return [(each["subject"], each["version"], each["id"], each["deleted"]) for each in found]

    def places(self, prefix: str) -> list[tuple[str, int]]:
        return [each[:2] for each in self.versions(prefix)]

    def text(self, subject: str, number: int) -> str:
        found: str = self.ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{number}")["schema"]
        return found

    def mode(self, subject: str) -> str | None:
        answer = self.http.get(f"/mode/{quote(subject, safe='')}")
        return answer.json().get("mode")


@contextmanager
def running(data: Path, *flags: str) -> Iterator[Place]:
    """Start a registry of one process."""
    registry = Registry(data, "--readers", "1", "--snapshots-builder", "none", *flags)
    try:
        place = Place(registry.wait().url)
        with place.http:
            yield place
    finally:
        registry.stop()
