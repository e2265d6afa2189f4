"""Reporting the progress of Spark's jobs while they run."""

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
def report_progress(context: SparkContext, step: str, group: str, progress: Progress) -> Iterator[None]:
    """Name the block's jobs in Spark's UI, and report how many of their tasks are done.

    If the block ends with an error, its running jobs are cancelled.
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
            return  # Spark has ended; the thread that waits for the job raises the error
        finally:
            _disconnect(context)

    thread = threading.Thread(target=tell, name="report_progress", daemon=True)
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


def _disconnect(context: SparkContext) -> None:
    """Close this thread's connection to Java, which PySpark leaves open."""
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
