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
from pathlib import Path

_NEEDED = (
    "pandas",
    "snapshots.spark.local_log",
    "snapshots.spark.tasks.folding",
    "snapshots.spark.tasks.writing",
)


def _leave_archives_out() -> None:
    """Take PySpark's archives off the path if they belong to the PySpark that is installed."""
    spec = PathFinder.find_spec("pyspark", [folder for folder in sys.path if not folder.endswith(".zip")])
    if spec is not None and spec.origin is not None:
        home = Path(spec.origin).parent
        sys.path[:] = [
            each for each in sys.path if not (each.endswith(".zip") and home in Path(each).parents)
        ]
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
