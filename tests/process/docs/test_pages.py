"""The commands of README and docs do what the pages say: each page is run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.broker import Broker
from tests.support.pages import DOCS, Page, blocks
from tests.support.running import ROOT

# The commands of these are those of docs/snapshots.md at other addresses.
REPEATING = [ROOT / "deploy" / "MIGRATION.md"]
RUN = [
    page
    for page in DOCS
    if page not in REPEATING and any(block.runs and not block.takes_long for block in blocks(page))
]
LONG = [page for page in DOCS if page in REPEATING or any(block.takes_long for block in blocks(page))]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def broker_for(page: Path, request: pytest.FixtureRequest) -> str:
    """Return the address of a broker, started for the first page that wants one."""
    if not any(block.needs_broker for block in blocks(page)):
        return ""
    broker: Broker = request.getfixturevalue("kafka")
    return broker.address


@pytest.mark.parametrize("page", RUN, ids=page_id)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    Page(page, tmp_path, broker=broker_for(page, request)).run()


@pytest.mark.long
@pytest.mark.parametrize("page", LONG, ids=page_id)
def test_the_long_commands_of_a_page_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    Page(page, tmp_path, broker=broker_for(page, request), long=True).run()
