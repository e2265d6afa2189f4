"""The comparison of a store with the log that is attached."""

from __future__ import annotations

import pytest

from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Record
from registry.store import layout
from registry.store.examination import AttachedLog, _why_of_another_log
from registry.store.layout import State

LINEAGE = Lineage().with_records([Record(6, 0, b"k", b"v")])
META = {
    layout.META_LOG: b"one",
    layout.META_STATE: State(7, 0).pack(),
    layout.META_LINEAGE: LINEAGE.pack(),
}


def log(identity: str = "one", end: int = 7, lost: int | None = None) -> AttachedLog:
    """Return a log that lacks the store's records from the offset ``lost`` on."""
    return AttachedLog(identity, end, lambda lineage: lost if lineage == LINEAGE else None, lambda _: "")


def test_a_store_fits_the_log_that_it_was_built_from() -> None:
    assert _why_of_another_log(META, log(end=9)) == ""


@pytest.mark.parametrize(
    ("attached", "why"),
    [
        (log("another"), "was built from another log"),
        (log(end=6), "the log ends at 6"),
        (log(lost=5), "from offset 5 or earlier on"),
    ],
)
def test_a_log_that_lacks_records_of_the_store_is_another_one(attached: AttachedLog, why: str) -> None:
    assert why in _why_of_another_log(META, attached)
