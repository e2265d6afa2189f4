"""Reading everything that a registry holds: page by page, whatever the registry's pages are like."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from registry.cli.client.connect import Connection
from registry.cli.promotion.streams import RegistryStreams
from tests.process.as_confluent import PAGE_MAX, as_confluent
from tests.support.running import PATIENT, Registry

SUBJECTS = [f":.c:s{number}" for number in range(2 * PAGE_MAX + 1)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve more versions than a small page holds; yield the URL."""
    running = Registry(tmp_path_factory.mktemp("streams") / "data", "--readers", "1").wait()
    for subject in SUBJECTS:
        place, body = f"{running.url}/subjects/{subject}/versions", {"schema": '"string"'}
        httpx.post(place, json=body, timeout=PATIENT).raise_for_status()
    yield running.url
    assert running.stop() == 0, running.output


def test_small_pages_without_links_give_everything(url: str) -> None:
    with as_confluent(url) as proxied, Connection(proxied.url).open({}) as client:
        streams = RegistryStreams(client)
        assert streams.subjects == SUBJECTS
        assert [each["subject"] for each in streams.versions()] == SUBJECTS


def test_versions_that_the_list_leaves_out_are_read_one_by_one(url: str) -> None:
    with as_confluent(url, apicurio=True) as proxied, Connection(proxied.url).open({}) as client:
        found = [(each["subject"], each["deleted"]) for each in RegistryStreams(client).versions()]
    assert found == [(each, False) for each in SUBJECTS]


def test_a_page_is_asked_for_when_the_one_before_was_used(url: str) -> None:
    with as_confluent(url) as proxied, Connection(proxied.url).open({}) as client:
        versions = RegistryStreams(client).versions()
        for _ in range(PAGE_MAX):
            next(versions)
        assert len(proxied.asked) == 1
        next(versions)
        assert len(proxied.asked) == 2
