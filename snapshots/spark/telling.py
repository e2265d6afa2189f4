"""How far Spark is with a job, told while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext

from snapshots.task import Progress

_EVERY_S = 0.5


@contextmanager
def telling(context: SparkContext, step: str, group: str, progress: Progress) -> Iterator[None]:
    """Name what is run in the block in Spark's UI, and tell how many of its tasks are done.

    When the block ends with an error, what still runs of it is cancelled.
    """
    context.setJobGroup(group, step, interruptOnCancel=True)
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_EVERY_S):
            done, total = _tasks(context, group)
            if total:
                progress(step, done, total)

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
            context.cancelJobGroup(group)
    _, total = _tasks(context, group)
    progress(step, max(1, total), max(1, total))


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
