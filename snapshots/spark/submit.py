"""``spark-submit … snapshots/spark/submit.py --kafka … --snapshots …``: build one snapshot on a cluster.

If the arguments after the name of this file begin with ``census run``, that is what runs.

Spark's own flags (``--master``, ``--packages``, memory and the like) come before the name of this file, the
arguments of ``registrar snapshot build`` after it. The driver's Python needs ``kafka-registrar[spark]``; for
executors see :mod:`snapshots.spark.shipping`.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from registry.__main__ import main


def run(arguments: list[str]) -> int:
    """Run within the session that ``spark-submit`` has set up; return the exit code."""
    census = arguments[:1] == ["census"]
    words = arguments if census else ["snapshot", "build", "--engine", "spark", *arguments]
    session = SparkSession.builder.appName(f"registrar {words[0]}").getOrCreate()
    try:
        return main(words)
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
