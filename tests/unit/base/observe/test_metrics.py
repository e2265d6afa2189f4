"""Sums over the requests of a host's processes."""

from __future__ import annotations

from registry.base.observe.metrics import Processes, Requests, Tally


def test_probes_that_fail_on_purpose_are_no_failed_requests() -> None:
    requests = Requests()
    for route, status in (
        ("/subjects", 200), ("/subjects", 500), ("/health/ready", 503), ("/_health", 503), ("/metrics", 500)
    ):  # fmt: skip
        requests.add("GET", route, status, 1.0)
    processes = Processes()
    processes.report(1, Tally(requests.tally()))
    assert processes.answered() == (5, 1, 5.0)
