"""The end of a session, for which only those wait who need it.

After the last task PySpark listens for another second to what tasks have counted, and only then has ended.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_over = threading.Event()
_over.set()


def end(session: SparkSession) -> None:
    """Have the session end. If the process ends before, Java sees it, and ends too."""
    _over.clear()
    threading.Thread(target=_end, args=(session,), name="ending", daemon=True).start()


def wait_until_over() -> None:
    """Wait until the session that ends, if one does, has ended."""
    _over.wait()


def _end(session: SparkSession) -> None:
    try:
        with suppress(Py4JError, OSError):  # where Spark was killed
            session.stop()
    finally:
        _over.set()
