"""The snapshots that a node may start from, and the reasons to reject others."""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.lineage import too_long
from snapshots.format.manifest import FORMAT, Manifest, new_id
from snapshots.loading.candidates import (
    LOADED_PER_S,
    REPLAYED_PER_S,
    TargetLog,
    is_quicker,
    newest_first,
    reason_unusable,
)

DAY_MS = 86_400_000
NOW = 1_790_000_000_000
SITUATION = TargetLog("a-log", 1000, 7 * DAY_MS, 3_600_000, NOW, {})


def manifest(offset: int = 900, rows: int = 1, **given: Any) -> Manifest:
    known = Manifest(
        id=new_id(offset, NOW, 1), format=FORMAT, fold=FOLD_VERSION, log="a-log", offset=offset,
        comparable_from=offset, at_end_ms=NOW - DAY_MS, created_ms=NOW, engine="local", base="",
        counts={"V": rows}, digest=0, parts=(),
    )  # fmt: skip
    return known._replace(**given)


def test_one_that_fits_is_used() -> None:
    assert reason_unusable(manifest(), SITUATION) == ""
    assert reason_unusable(manifest(offset=1000), SITUATION) == ""
    assert reason_unusable(manifest(at_end_ms=NOW - 10**12), SITUATION._replace(retention_ms=None)) == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"format": "registrar-snapshot 3"}, "it has the format 'registrar-snapshot 3'"),
        ({"log": "another"}, "it is of another log, another"),
        ({"fold": FOLD_VERSION + 1}, f"its rows are of fold {FOLD_VERSION + 1}"),
        ({"offset": 1001}, "it needs the log up to offset 1001, but the log ends at 1000"),
        ({"comparable_from": 1001}, "it needs the log up to offset 1001, but the log ends at 1000"),
        ({"at_end_ms": NOW - 7 * DAY_MS}, "and the log keeps deletions for 604800 s"),
        ({"at_end_ms": NOW + DAY_MS}, "a time in the future"),
    ],
)
def test_one_that_does_not_fit_is_refused_with_the_reason(given: dict[str, Any], why: str) -> None:
    assert why in reason_unusable(manifest(**given), SITUATION)


def test_one_whose_rows_were_wrong_is_not_taken_again() -> None:
    wrong = manifest()
    assert (
        reason_unusable(wrong, SITUATION._replace(rejected={wrong.id: "its rows are wrong"}))
        == "its rows are wrong"
    )
    assert reason_unusable(wrong, SITUATION._replace(rejected={"another": "wrong"})) == ""


def test_the_margin_covers_clocks_that_differ() -> None:
    last = NOW - 7 * DAY_MS + SITUATION.margin_ms
    assert reason_unusable(manifest(at_end_ms=last), SITUATION) == ""
    assert reason_unusable(manifest(at_end_ms=last - 1), SITUATION) != ""
    assert too_long(NOW + 3_600_000, NOW, 7 * DAY_MS, 3_600_000) == ""
    # A log that forgets at once has always forgotten.
    assert too_long(NOW - 1, NOW, 1000, 3_600_000) != ""


def test_the_newest_state_comes_first_whenever_it_was_sealed() -> None:
    older, newer = manifest(10), manifest(20)
    late = older._replace(id=new_id(10, NOW + 5000, 1))
    assert newest_first([older, newer, late]) == [newer, late, older]


def test_what_is_replayed_sooner_is_not_loaded() -> None:
    small = manifest(offset=20_000, rows=60_000)
    assert is_quicker(small, 0, 20_000)
    assert not is_quicker(small, 1, 20_000), "only so many records ahead"
    assert is_quicker(small, 15_000, 1)
    large = manifest(offset=20_000, rows=LOADED_PER_S)
    assert not is_quicker(large, 0, 1), "its rows take longer than its records"
    assert is_quicker(large._replace(offset=REPLAYED_PER_S + 1), 0, 1)
    assert not is_quicker(manifest(offset=0, rows=0), 0, 0), "nothing new"
