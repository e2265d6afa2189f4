"""Deleting a subject reads each of its rows a fixed number of times."""

from __future__ import annotations

import pytest

from registry.domain.commands import DeleteSubject
from registry.domain.decide import decide
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.domain.rows.memory_views import OverlayView
from tests.support.counting_view import CountingView
from tests.unit.small_registry import SmallRegistry, record


def reads(count: int, *, permanent: bool) -> int:
    """Count the reads that deciding and folding the deletion of so many versions takes."""
    small = SmallRegistry()
    small.level("s", "NONE")
    for number in range(count):
        small.register("s", record("R", f"a{number}"))
    if permanent:
        small.submit(DeleteSubject("s", False))
    view = CountingView()
    view.commit(list(small.view.rows()))
    overlay = OverlayView(view)
    decision = small.parser.run(
        decide(overlay, DeleteSubject("s", permanent), small.ids, small.defaults, small.parser.memory)
    )
    for offset, entry in enumerate(decision.entries, len(small.log)):
        overlay.commit(apply(overlay, Record(offset, 0, entry.key, entry.value)))
    return view.reads


@pytest.mark.parametrize("permanent", [False, True])
def test_a_version_more_costs_no_more_than_the_one_before(permanent: bool) -> None:
    few, many = (reads(count, permanent=permanent) for count in (20, 120))

    assert many - few <= 3 * 100
