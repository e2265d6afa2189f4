"""Suggestions for incompatible changes to Protobuf schemas."""

from __future__ import annotations

from typing import Final

from registry.domain.schemas.fixes import Fix


def _either(text: str) -> Fix:
    return Fix(text, text)


_NEW_NUMBER: Final = "keep `{old}`, or keep its number reserved and give the new field a number of its own"

# By kind of harmful change.
FIXES: Final[dict[str, Fix]] = {
    "PACKAGE_CHANGED": _either("keep the package as it is in the old schema: `{old}`"),
    "MESSAGE_REMOVED": Fix(
        "keep the message `{name}`, even if no field uses it any more",
        "declare `{name}`, which the old schema lacks, in a schema of its own, and refer to that",
    ),
    "FIELD_KIND_CHANGED": _either(_NEW_NUMBER),
    "FIELD_SCALAR_KIND_CHANGED": _either(f"{_NEW_NUMBER}; only types of one encoding may be exchanged"),
    "FIELD_NAMED_TYPE_CHANGED": _either(_NEW_NUMBER),
    "FIELD_NUMERIC_LABEL_CHANGED": _either("keep the label of `{name}`: `{old}`"),
    "REQUIRED_FIELD_ADDED": Fix("let `{name}` be optional", "keep the required field: `{old}`"),
    "REQUIRED_FIELD_REMOVED": Fix("keep the required field: `{old}`", "let `{name}` be optional"),
    "ONEOF_FIELD_REMOVED": Fix(
        "keep `{old}` in its oneof, or remove the whole oneof with all its fields",
        "declare `{name}` outside of the oneof, whose fields the old schema has to know all",
    ),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": Fix(
        "move at most one field that stood alone into a new oneof: leave the others of `{name}` outside",
        "keep in the oneof `{name}` the fields that the old schema has in it",
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": Fix(
        "leave outside of the oneof `{name}` what could be set together with its other fields",
        "keep in the oneof `{name}` the fields that the old schema has in it",
    ),
}
