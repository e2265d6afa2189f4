"""The code that Spark's executors run: pure except for reading and writing a snapshot's files.

These modules, their imports from :mod:`registry`, and msgspec, numpy, orjson, pyarrow and xxhash are all that
an executor needs (:mod:`snapshots.spark.shipping`).
"""
