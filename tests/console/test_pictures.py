"""The pictures of the console in the docs: ``make screenshots`` takes them again, as pages look now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from registry.domain.log_format.records import Entry
from tests.support.running import ROOT

from . import filled
from .places import Place, Serving

# The tests of each page show that it does what it does; these, that its picture can be taken.
pytestmark = pytest.mark.long

SIZE = {"width": 1280, "height": 640}
BYTES_MAX = 150_000
ORDER = (
    '{"type":"record","name":"OrderCancelled","namespace":"shop.orders","fields":[{"name":"id","type":"string"},'
    '{"name":"reason","type":["null","string"],"default":null}]}'
)

REFUND = (
    '{"type":"record","name":"Refund","namespace":"shop.payments","fields":[{"name":"id","type":"long"},'
    '{"name":"cents","type":"int"}]}'
)
# Its amounts are larger, which only the new schema can read, and who asked for it is required.
REFUND_2 = REFUND.replace('"int"}', '"long"},{"name":"by","type":"string"}')


def sample() -> Iterator[Entry]:
    """Yield the records of a small shop."""
    yield filled.context(".europe")
    yield filled.version(":.europe:orders.created-value", 7)
    names = [f"{area}.{event}-value" for area in filled.AREAS for event in filled.EVENTS]
    for number, name in enumerate(names, 100):
        for version in range(1, number % 4 + 1):
            deleted = version == 1 and number % 3 == 0
            yield filled.version(name, 10 * number + version, version, deleted=deleted)
    for name in ("orders.cancelled-value", "refunds.requested-value"):
        yield filled.version(name, 7, 5, text=ORDER)
    yield filled.version("refunds.paid-value", 901, 1, text=REFUND)
    yield filled.version("refunds.paid-value", 902, 2, text=REFUND_2)


@pytest.fixture(scope="module")
def served(serving: Serving) -> Iterator[Place]:
    with serving(entries=sample()) as place:
        yield place


@pytest.fixture
def picture(opened, request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], Page]]:
    """Return a function that opens an address, which docs/console-NAME.png shows at the test's end."""
    taken: list[tuple[str, Page]] = []

    def open_page(name: str, address: str) -> Page:
        page = opened(address, viewport=SIZE, color_scheme="light", locale="en-GB", timezone_id="UTC")
        taken.append((name, page))
        return page

    yield open_page
    for name, page in taken:
        file = ROOT / "docs" / f"console-{name}.png"
        if request.config.getoption("--rewrite"):
            page.screenshot(path=file, animations="disabled", caret="hide")
        assert file.stat().st_size < BYTES_MAX, f"make screenshots takes {file.name}"


def test_subjects(picture) -> None:
    page = picture("subjects", "/subjects?at=orders.cancelled-value")
    expect(page.locator('[aria-selected="true"]')).to_contain_text("v5")


def test_lookup(picture) -> None:
    page = picture("lookup", "/lookup?id=7")
    expect(page.get_by_role("textbox", name="Schema of the id 7")).to_have_count(2)


def test_schema(picture) -> None:
    page = picture("schema", "/subjects/refunds.paid-value?view=compare")
    expect(page.get_by_role("table", name="Verdict at each level").get_by_text("✗")).to_have_count(3)
    expect(page.locator(".cm-mergeView .cm-content").last).to_contain_text('"by"')


def test_try(picture) -> None:
    page = picture("try", "/try?subject=refunds.paid-value&version=2")
    draft = json.loads(REFUND_2)
    draft["fields"].append({"name": "reason", "type": "string"})
    page.get_by_role("textbox", name="Schema").fill(json.dumps(draft, indent=2))
    # The new field stands against every level at which the new schema has to read old data.
    expect(page.get_by_role("table", name="Verdict at each level").get_by_text("✗")).to_have_count(5)
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)


def test_past(picture) -> None:
    page = picture("past", "/subjects/refunds.paid-value?view=history")
    page.get_by_role("row").filter(has_text="version 1").get_by_role("link").first.click()
    page.get_by_role("tab", name="Compare with now").click()
    expect(page.get_by_role("table", name="Then and now")).to_be_visible()
    expect(page.get_by_role("table", name="Verdict at each level")).to_be_visible()
