"""What Spark forks Python's workers from, on this machine: all that they need is loaded once, before.

Between tasks, Spark lets Python look at its path anew and search its memory for what is not used any more.
Python 3.11 then reads the directories of the archives on the path, and looks at all that was loaded: a
seventh of a second for each task. PySpark's own archives are on the path, although PySpark is installed.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

_USED = ("base_rows", "folding", "grouping", "writing")


class _NoPandas:
    """Arrow loads it, where it is, for nothing but to ask whether a list is one of its own: half a second."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _leave_archives_out() -> None:
    path = sys.path
    sys.path = [entry for entry in path if Path(entry).is_dir()]
    sys.path_importer_cache.clear()
    if importlib.util.find_spec("pyspark") is None:
        sys.path = path


def main() -> None:
    """Serve Spark until it ends this process."""
    _leave_archives_out()
    sys.meta_path.insert(0, _NoPandas())
    for name in _USED:
        importlib.import_module(f"snapshots.spark.tasks.{name}")
    daemon: Any = importlib.import_module("pyspark.daemon")
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
