"""Spark's errors as one line that says what to do."""

from __future__ import annotations

import pytest

from snapshots.building.engines import reason_too_old
from snapshots.spark.failures import reason

TRACE = "\n\tat org.apache.spark.Something.run(Something.scala:1)\n" * 40


@pytest.mark.parametrize(
    ("text", "advice", "line"),
    [
        (
            "An error occurred while calling o222.localCheckpoint.\n"
            f": org.apache.spark.SparkException: Job aborted: Task 0 failed 3 times{TRACE}"
            f"Caused by: java.io.IOException: No space left on device{TRACE}",
            "another folder by spark.local.dir=FOLDER",
            "java.io.IOException: No space left on device",
        ),
        (
            f": org.apache.spark.SparkException: Job aborted{TRACE}"
            f"\tSuppressed: java.io.IOException: No space left on device{TRACE}",
            "another folder by spark.local.dir=FOLDER",
            "org.apache.spark.SparkException: Job aborted",
        ),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY] System memory "
            "67108864 must be at least 471859200.\nPlease increase heap size using the --driver-memory option"
            f"{TRACE}",
            "raise spark.driver.memory",
            "System memory 67108864 must be at least",
        ),
        (f": java.lang.OutOfMemoryError: Java heap space{TRACE}", "raise spark.driver.memory", "heap space"),
        (
            f": org.apache.spark.SparkException: All masters are unresponsive! Giving up.{TRACE}",
            "check snapshots_spark_master",
            "All masters are unresponsive",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "needs Java 17 or newer",
            "JAVA_GATEWAY_EXITED",
        ),
        (
            f"Job aborted{TRACE}snapshots.format.files.LocationUnreachable: No space left on device{TRACE}",
            "",
            "snapshots.format.files.LocationUnreachable: No space left on device",
        ),
        ("", "", "it gave no reason"),
    ],
)
def test_what_to_do_comes_first_and_no_trace_follows(text: str, advice: str, line: str) -> None:
    told = reason(text)
    assert "\n" not in told
    assert len(told) < 1_000
    assert line in told
    assert advice in told
    assert advice or told == line, "of what is not known, nothing is guessed"


@pytest.mark.parametrize(
    ("version", "too_old"), [("3.5.9", True), ("4.0.0", False), ("4.1.0.dev1", False), ("5.0", False)]
)
def test_a_pyspark_before_4_cannot_be_used(version: str, *, too_old: bool) -> None:
    assert bool(reason_too_old(version)) == too_old
