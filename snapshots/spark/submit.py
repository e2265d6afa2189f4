"""``spark-submit … snapshots/spark/submit.py --kafka … --snapshots …``: build one snapshot on a cluster.

Spark's own flags (``--master``, ``--packages``, memory and the like) come before the name of this file, the
arguments of ``registrar snapshot build`` after it. The driver's Python needs ``kafka-registrar[spark]``; for
executors see :mod:`snapshots.spark.shipping`.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from registry.__main__ import main


def run(arguments: list[str]) -> int:
    """Build within the session that ``spark-submit`` has set up; return the exit code."""
    session = SparkSession.builder.appName("registrar snapshot").getOrCreate()
    try:
        return main(["snapshot", "build", "--engine", "spark", *arguments])
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
