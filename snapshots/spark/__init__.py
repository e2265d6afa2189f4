"""Builds snapshots by a PySpark job, on this machine or on a cluster."""
