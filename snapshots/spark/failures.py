"""One line about a failure of Spark: what happened, and what to do about it."""

from __future__ import annotations

import re

_PYTHON_ERROR = re.compile(r"(?!org\.|java\.|scala\.|Suppressed: )(\w+\.)*[A-Z]\w*: ")
_CAUSED_BY = "Caused by: "
_SHOWN_CHARACTERS = 500
# What to do about errors with some words; the first that is found counts.
_DISK = (
    "the disk of Spark's temporary files is full or cannot be written: free space there, or name another "
    "folder by spark.local.dir=FOLDER in snapshots_spark_conf"
)
_MEMORY = (
    "Java has too little memory: raise spark.driver.memory in snapshots_spark_conf, and on a cluster "
    "spark.executor.memory"
)
_CLUSTER = "the Spark master does not answer: check snapshots_spark_master, and that this machine reaches it"
_JAVA = "Java ended at once, having printed why: it needs Java 17 or newer, and room for spark.driver.memory"
_EXECUTORS = "executors were lost: see their logs, and raise spark.executor.memory if they were killed"
_ADVICE = {
    "No space left on device|Disk quota exceeded|Failed to create (a )?local dir": _DISK,
    r"OutOfMemoryError|GC overhead limit|INVALID_\w+_MEMORY": _MEMORY,
    "masters are unresponsive|a stopped SparkContext|Could not parse Master URL": _CLUSTER,
    "JAVA_GATEWAY_EXITED": _JAVA,
    "ExecutorLostFailure|executor .* exited|Remote RPC client disassociated": _EXECUTORS,
}


def reason(text: str) -> str:
    """Return the line that says most about an error of Spark, after what to do if that is known.

    An error of our own code in Python, which comes first, says itself what is wrong.
    """
    line = _line(text)[:_SHOWN_CHARACTERS]
    if _PYTHON_ERROR.match(line):
        return line
    advice = next((advice for words, advice in _ADVICE.items() if re.search(words, text)), "")
    return f"{advice} ({line})" if advice else line


def _line(text: str) -> str:
    """Return the Python error, if there is one, else Java's innermost cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if _PYTHON_ERROR.match(line) and not line.startswith(_CAUSED_BY)]
    causes = [line.removeprefix(_CAUSED_BY) for line in lines if line.startswith(_CAUSED_BY)]
    java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (python or causes[-1:] or java or lines or ["it gave no reason"])[0]
