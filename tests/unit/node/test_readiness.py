"""The two kinds of readiness of a node, by its situation and the reports of the others."""

from __future__ import annotations

import pytest

from registry.api.backend import NodeReport
from registry.node.status import NOTICED_S, RECENT_S, Readiness, Situation, reaches_log, readiness

LONG_S = NOTICED_S + RECENT_S


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        (Situation(), Readiness([], [])),
        (Situation(starting="reading"), Readiness(["reading"], ["reading"])),
        (Situation(log="gone"), Readiness([], ["gone"])),
        (Situation(log="gone", better="gone; b has it"), Readiness(["gone; b has it"], ["gone; b has it"])),
        (Situation(starting="reading", log="gone"), Readiness(["gone"], ["gone"])),
        (Situation(store="full", log="gone"), Readiness(["full"], ["full", "gone"])),
        (Situation(rejected="twins", no_writes="twins"), Readiness(["twins"], ["twins"])),
        (Situation(log="gone", no_writes="no primary"), Readiness([], ["gone", "no primary"])),
        (Situation(no_writes="the disk is full"), Readiness([], ["the disk is full"])),
    ],
)
def test_only_the_log_may_be_missing(situation: Situation, expected: Readiness) -> None:
    assert readiness(situation) == expected


def report(*, ready: bool = True, log_error: str = "", age_s: float = 0.0) -> NodeReport:
    return NodeReport(node="b", url="http://b", ready=ready, log_error=log_error, age_s=age_s)


@pytest.mark.parametrize(
    ("other", "missing_s", "found"),
    [
        (report(), LONG_S, "http://b"),
        (report(age_s=RECENT_S), LONG_S, "http://b"),
        (report(age_s=RECENT_S + 1), LONG_S * 2, ""),  # it may be gone
        (report(), NOTICED_S - 1, ""),  # it may not have noticed yet
        (report(age_s=5), NOTICED_S + 4, ""),  # it had not noticed then
        (report(log_error="gone"), LONG_S, ""),
        (report(ready=False), LONG_S, ""),  # it still reads the log
    ],
)
def test_another_node_is_better_off_only_by_what_it_said_lately(
    other: NodeReport, missing_s: float, found: str
) -> None:
    assert reaches_log([report(log_error="gone"), other], missing_s) == found
