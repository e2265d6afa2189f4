"""What Spark's executors run: pure but for reading and writing a snapshot's files.

These modules, what they import of :mod:`registry`, and msgspec, numpy, orjson, pyarrow and xxhash are all
that an executor needs (:mod:`snapshots.spark.shipping`).
"""
