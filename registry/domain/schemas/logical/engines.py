"""The engines whose rules are known, as a table. ``LOGICAL`` asks two of them, with Confluent 8.4's texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from . import leaf_rules, limits
from .limits import Limit
from .types import Array, Field, Kind, Leaf, Map, Shape

# Why one leaf may not become another: a reason in brackets, or nothing to add; None: it may.
LeafRule = Callable[[Leaf, Leaf], str | None]


class Engine(NamedTuple):
    """The rules of one engine or table format: where a text is empty, the change is allowed."""

    # As in messages.
    name: str
    leaf_rule: LeafRule
    # Why rows written before a field was added cannot be read; None if they can.
    added: Callable[[Field], str | None]
    # About a field that must not be null any more.
    not_null: str
    # The same for elements, keys and values.
    element_not_null: str = ""
    # About a required field with a default that is added inside a column.
    added_inside: str = ""
    # About a required field that lost its default.
    default_removed: str = ""
    # About a field that is gone, about one that is gone and was required, and about one that moved.
    deleted: str = ""
    required_deleted: str = ""
    reordered: str = ""
    # About a struct inside a column that keeps none of its fields.
    replaced: str = ""
    # True if the keys of maps keep their type.
    keeps_keys: bool = False
    # True if a multiset is stored as a map from its elements to their counts.
    counts_multisets: bool = True
    # True if a collection with a default is never null.
    exempts_collections: bool = False
    # True if a field that has another name, but is the same by alias or number, is named as such.
    sees_renames: bool = True
    limits: tuple[Limit, ...] = ()


def _added_to_flink(field: Field) -> str | None:
    if field.type.nullable or field.has_value:
        return None
    return (
        "added column is neither nullable nor defaulted, so rows written before it existed "
        "have no value for it"
    )


_NOT_READABLE: Final = (
    "added field is neither nullable nor defaulted, so pre-existing rows have no value for it; "
)


def _added_to_iceberg_v2(field: Field) -> str | None:
    if field.type.nullable or is_collection_with_default(field):
        return None
    return f"{_NOT_READABLE}format-version 2 cannot store a column default"


def _added_to_iceberg_v3(field: Field) -> str | None:
    has_default = field.has_value and field.type.shape != Leaf(Kind.VARIANT)
    if field.type.nullable or has_default:
        return None
    return f"{_NOT_READABLE}a non-null column default would make it readable"


def _added_as_null(field: Field) -> str | None:
    if field.type.nullable or is_collection_with_default(field):
        return None
    return "added column is not nullable, and rows written before it existed read as null"


def _added_to_clickhouse(field: Field) -> str | None:
    if field.type.nullable or field.has_value:
        return None
    return (
        "added column is neither nullable nor defaulted, so rows written before it existed read as 0 or empty"
    )


def is_collection_with_default(field: Field) -> bool:
    """Return true for an array, map or multiset with a default, which Protobuf implies."""
    return field.has_value and isinstance(field.type.shape, Array | Map)


def stored_in_iceberg(shape: Shape) -> object:
    """Return the part of a map's key that Iceberg sees."""
    if not isinstance(shape, Leaf):
        return type(shape)
    kind = leaf_rules.ICEBERG.stored.get(shape.kind, shape.kind)
    return (kind, shape.size, shape.scale) if kind in (Kind.DECIMAL, Kind.BINARY) else kind


FLINK: Final = Engine(
    "FLINK",
    leaf_rules.flink,
    _added_to_flink,
    not_null="column was nullable and is now NOT NULL; pre-existing rows may hold nulls",
    element_not_null="container child was nullable and is now NOT NULL; existing collections may hold nulls",
    default_removed="NOT NULL column lost its default; rows that omitted the column have no value to read",
    counts_multisets=False,
    sees_renames=False,
)
ICEBERG_V2: Final = Engine(
    "ICEBERG_V2",
    leaf_rules.ICEBERG.refusal,
    _added_to_iceberg_v2,
    not_null="field was nullable and is now non-nullable; pre-existing rows may hold nulls",
    deleted="field present in the original schema is missing from the update",
    reordered="field moved ahead of a field that preceded it in the original schema",
    keeps_keys=True,
    exempts_collections=True,
    sees_renames=False,
    limits=(
        limits.needs_fields,
        limits.ignores_case_in_iceberg,
        limits.microseconds_only_in_iceberg,
        limits.no_variant_in_iceberg,
    ),
)
ICEBERG_V3: Final = ICEBERG_V2._replace(
    name="ICEBERG_V3",
    added=_added_to_iceberg_v3,
    limits=(limits.needs_fields, limits.ignores_case_in_iceberg),
)

_NULLS: Final = "was nullable and is not any more; rows written before may hold nulls"
_STAYS: Final = "the column stays in the table and is not nullable, so new rows have no value for it"

_REPLACED: Final = "none of the earlier fields is left, so rows written before read as null"

# Rows in Parquet files, read together by Spark.
_SPARK: Final = Engine(
    "SPARK",
    leaf_rules.SPARK.refusal,
    _added_as_null,
    not_null=_NULLS,
    element_not_null=_NULLS,
    replaced=_REPLACED,
    exempts_collections=True,
    limits=(limits.needs_fields, limits.ignores_case, limits.microseconds_only, limits.no_unsigned),
)
_DELTA: Final = _SPARK._replace(
    name="DELTA", required_deleted=_STAYS, replaced="", limits=(*_SPARK.limits, limits.no_punctuation)
)
_PARQUET: Final = _SPARK._replace(
    name="PARQUET", leaf_rule=leaf_rules.PARQUET.refusal, limits=(limits.needs_fields,)
)
_BIGQUERY: Final = Engine(
    "BIGQUERY",
    leaf_rules.BIGQUERY.refusal,
    _added_as_null,
    not_null=_NULLS,
    required_deleted=_STAYS,
    exempts_collections=True,
    limits=(
        limits.needs_fields,
        limits.ignores_case,
        limits.letters_only,
        limits.microseconds_only,
        limits.no_unsigned,
        limits.no_arrays_in_arrays,
        limits.no_null_elements,
        limits.nesting,
    ),
)
_CLICKHOUSE: Final = Engine(
    "CLICKHOUSE",
    leaf_rules.CLICKHOUSE.refusal,
    _added_to_clickhouse,
    not_null=_NULLS,
    element_not_null=_NULLS,
    replaced="none of the earlier fields is left, so values of rows written before are taken by position",
    added_inside="field was added inside a column, so rows written before read as 0 or empty",
    limits=(limits.needs_fields, limits.no_null_collections),
)
_DUCKDB: Final = Engine(
    "DUCKDB",
    leaf_rules.DUCKDB.refusal,
    _added_to_flink,
    not_null=_NULLS,
    element_not_null=_NULLS,
    required_deleted=_STAYS,
    limits=(limits.needs_fields, limits.ignores_case),
)

# What a target says that LOGICAL does not.
_AS_TARGET: Final[dict[str, Any]] = {"sees_renames": True, "element_not_null": _NULLS}

# Those that LOGICAL asks for, in the order of their messages.
LOGICAL_ENGINES: Final = (FLINK, ICEBERG_V2)
# Those that clients may ask for, by name.
TARGETS: Final = {
    "spark": _SPARK,
    "delta": _DELTA,
    "iceberg-v2": ICEBERG_V2._replace(
        leaf_rule=leaf_rules.ICEBERG_TARGET.refusal,
        limits=(*ICEBERG_V2.limits, limits.no_unsigned),
        **_AS_TARGET,
    ),
    "iceberg-v3": ICEBERG_V3._replace(
        leaf_rule=leaf_rules.ICEBERG_TARGET.refusal,
        limits=(*ICEBERG_V3.limits, limits.no_unsigned),
        **_AS_TARGET,
    ),
    "flink": FLINK._replace(sees_renames=True, limits=(limits.no_unsigned,)),
    "bigquery": _BIGQUERY,
    "clickhouse": _CLICKHOUSE,
    "duckdb": _DUCKDB,
    "parquet": _PARQUET,
}
