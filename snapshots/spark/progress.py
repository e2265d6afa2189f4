"""How far Spark is with a job, told while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from snapshots.building.task import Progress

_EVERY_S = 0.5


@contextmanager
def telling(context: SparkContext, step: str, group: str, progress: Progress) -> Iterator[None]:
    """Name what is run in the block in Spark's UI, and tell how many of its tasks are done.

    When the block ends with an error, what still runs of it is cancelled.
    """
    context.setJobGroup(group, step, interruptOnCancel=True)
    over = threading.Event()

    def tell() -> None:
        try:
            while not over.wait(_EVERY_S):
                done, total = _tasks(context, group)
                if total:
                    progress(step, done, total)
        except Py4JError:
            return  # Spark is gone, as whoever waits for the job is told
        finally:
            _hang_up(context)

    thread = threading.Thread(target=tell, name="telling", daemon=True)
    thread.start()
    finished = False
    try:
        yield
        finished = True
    finally:
        over.set()
        thread.join()
        if not finished:
            with suppress(Py4JError):
                context.cancelJobGroup(group)
    _, total = _tasks(context, group)
    progress(step, max(1, total), max(1, total))


def _hang_up(context: SparkContext) -> None:
    """Close this thread's connection to Java, which nobody else does."""
    gateway: Any = context._gateway  # noqa: SLF001 (there is no other way)
    if gateway is not None and (connection := gateway._gateway_client.get_thread_connection()):  # noqa: SLF001
        connection.close()


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            if found := tracker.getStageInfo(stage):
                done += found.numCompletedTasks
                total += found.numTasks
    return done, total
