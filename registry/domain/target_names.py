"""The names of targets: engines and table formats whose tables follow the schemas of a topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Those of :mod:`.schemas.logical.engines`.
TARGET_NAMES: Final = (
    "spark", "delta", "iceberg-v2", "iceberg-v3", "flink", "bigquery", "clickhouse", "duckdb", "parquet",
)  # fmt: skip


def parse_targets(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in lower case, each once. Raises ``ValueError``, whose text names those there are."""
    found = tuple(dict.fromkeys(each.strip().lower() for each in names if each.strip()))
    for each in found:
        if each not in TARGET_NAMES:
            raise ValueError(f"unknown target {each}; there are {', '.join(TARGET_NAMES)}")
    return found
