"""Sums over the requests of a host's processes."""

from __future__ import annotations

from registry.base.observe.metrics import BatchResults, Observed, Processes, Served, Tally


def test_probes_that_fail_on_purpose_are_no_failed_requests() -> None:
    observed = Observed(access_log=False)
    for route, status in (
        ("/subjects", 200), ("/subjects", 500), ("/health/ready", 503), ("/_health", 503), ("/metrics", 500)
    ):  # fmt: skip
        observed(Served(None, "", status, 1.0, 0, route))
    processes = Processes()
    processes.report(1, observed.tally(0))
    assert processes.sum_answered() == (5, 1, 5.0)


def test_results_of_batches_are_summed_up_over_processes_also_ended_ones() -> None:
    results, processes = BatchResults(), Processes()
    results.add("get", 3, 1)
    results.add("mutate", 0, 2)
    for process in (1, 2):
        processes.report(process, Tally([], results=results.counts))
    processes.note_end(1)
    assert processes.total().results == {
        "get_success": 6, "get_failure": 2, "mutate_success": 0, "mutate_failure": 4
    }  # fmt: skip
