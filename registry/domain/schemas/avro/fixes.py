"""Suggestions for incompatible changes to Avro schemas."""

from __future__ import annotations

from typing import Final

from registry.domain.schemas.fixes import Fix

# By kind of difference.
FIXES: Final[dict[str, Fix]] = {
    "NAME_MISMATCH": Fix(
        "keep the name {old}, or name it in full among the aliases of {new}",
        "keep the name {old}: the old schema knows no other",
    ),
    "FIXED_SIZE_MISMATCH": Fix("keep the size of `{name}` at {old}", "keep the size of `{name}` at {old}"),
    "MISSING_ENUM_SYMBOLS": Fix(
        "keep all symbols of `{name}`, {old}, or give the enum a default",
        "add no symbols to `{name}`, which has no default in the old schema: {old}",
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": Fix(
        "give `{name}` a default", "keep the field `{name}`, which has no default in the old schema"
    ),
    "TYPE_MISMATCH": Fix(
        "keep the type of `{name}`, {old}, or let it be one that this is promoted to, or a union with it",
        "keep the type of `{name}`, {old}, or let it be one that is promoted to this",
    ),
    "MISSING_UNION_BRANCH": Fix(
        "keep in the union of `{name}` a branch for each that it had: {old}",
        "add no branch to the union of `{name}` that the old schema lacks: {old}",
    ),
    "UNEXPECTED_EXCEPTION": Fix(
        "let no field stand for two by its aliases, and compare schemas of fewer types",
        "let no two fields bear a name and an alias of one field of the old schema, and compare schemas of "
        "fewer types",
    ),
}
