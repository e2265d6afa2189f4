"""``spark-submit … snapshots/spark/submit.py --kafka … --snapshots …``: build one snapshot on a cluster.

Spark's own flags (``--master``, ``--packages``, memory and the like) stand before the name
of this file; what stands behind it are the arguments of ``registrar snapshot build``. The driver's Python
needs ``registrar[spark]``; what executors need is in :mod:`snapshots.spark.shipping`.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from registry.__main__ import main


def submitted(arguments: list[str]) -> int:
    """Build within the session that ``spark-submit`` has set up; the exit code."""
    session = SparkSession.builder.appName("registrar snapshot").getOrCreate()
    try:
        return main(["snapshot", "build", "--engine", "spark", *arguments])
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(submitted(sys.argv[1:]))
