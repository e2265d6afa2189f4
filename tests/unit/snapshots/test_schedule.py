"""The time when a snapshot is due, and the choice of those to delete."""

from __future__ import annotations

import pytest

from registry.base.config.setting_types import Schedule
from registry.node.snapshots.catalogue_view import why_due
from snapshots.catalogue.catalogue import SILENT_MS, Entry
from tests.support.sample_catalogues import LOG, NOW, entry

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("when", "entries", "end", "now", "why"),
    [
        ("", [], 1_000_000, NOW, ""),
        ("100", [], 99, NOW, ""),
        ("100", [], 100, NOW, "100 records since the last one"),
        ("6h", [], 0, NOW, ""),
        ("6h", [], 1, NOW, "there is no snapshot yet"),
        ("100", [entry(state="ready")], 106, NOW, ""),
        ("100", [entry(state="ready")], 107, NOW, "100 records since the last one"),
        ("100", [entry(state="ready", log="another")], 106, NOW, "106 records since the last one"),
        ("6h", [entry(state="ready")], 7, NOW + 6 * HOUR_MS - 1, ""),
        ("6h", [entry(state="ready")], 7, NOW + 6 * HOUR_MS, "21600 s since the last one"),
        ("6h", [entry(state="ready")], 7, NOW + 600 * HOUR_MS, "2160000 s since the last one"),
        ("100,6h", [entry(state="ready")], 107, NOW, "100 records since the last one"),
        ("100,6h", [entry(state="ready")], 8, NOW + 7 * HOUR_MS, "25200 s since the last one"),
        ("100", [entry(state="ready"), entry("b", offset=100)], 10_000, NOW, ""),
        ("100", [entry("b", state="building", builder="x")], 10_000, NOW, ""),
        ("100", [entry("b", state="building", builder="x")], 10_000, NOW + SILENT_MS + 1, ""),
        ("100", [entry(state="failed", attempts=1)], 10_000, NOW, ""),
        ("100", [entry(state="failed", attempts=3)], 106, NOW, ""),
        ("100", [entry(state="failed", attempts=3)], 10_000, NOW, "9993 records since the last one"),
        ("100", [entry(state="ready", offset=5), entry("b", state="deleting", offset=500)], 500, NOW,
         "495 records since the last one"),
    ],
)  # fmt: skip
def test_when_one_is_due(when: str, entries: list[Entry], end: int, now: int, why: str) -> None:
    assert why_due(Schedule.parse(when), entries, LOG, end, now) == why
