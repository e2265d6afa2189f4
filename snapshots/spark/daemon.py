"""The process from which Spark forks its Python workers on this machine (``spark.python.daemon.module``).

It is PySpark's own, but imports what workers need once, before it forks them. And it takes PySpark's archives
off the path where PySpark is installed, because before each task, workers read the directories of archives
again.
"""

from __future__ import annotations

import gc
import importlib
import sys
from importlib.machinery import PathFinder

_NEEDED = (
    "pandas",
    "snapshots.spark.local_log",
    "snapshots.spark.tasks.folding",
    "snapshots.spark.tasks.writing",
)


def _leave_archives_out() -> None:
    """Take archives off the path, unless PySpark is in one of them only."""
    path = [folder for folder in sys.path if not folder.endswith(".zip")]
    if PathFinder.find_spec("pyspark", path):
        sys.path[:] = path
        sys.path_importer_cache.clear()


def main() -> None:
    """Serve until Spark ends."""
    _leave_archives_out()
    # It prepares itself when it is imported.
    daemon = importlib.import_module("pyspark.daemon")
    for name in _NEEDED:
        importlib.import_module(name)
    # PySpark collects garbage after each task; what was imported is none.
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
