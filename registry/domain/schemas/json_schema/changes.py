"""The kinds of change between two JSON schemas, and Confluent's messages for those that are not harmless.

Names, the harmless set and the sentences are Confluent's (Confluent 8.x).
"""

from __future__ import annotations

from typing import Final

from registry.domain.schemas.contract import LENIENT, Difference


def _limits(*names: str, harmless: str) -> set[str]:
    return {f"{name}_{how}" for name in names for how in ("REMOVED", harmless)}


HARMLESS: Final = frozenset(
    {
        "ID_CHANGED", "DESCRIPTION_CHANGED", "TITLE_CHANGED", "DEFAULT_CHANGED",
        "SCHEMA_REMOVED", "TYPE_EXTENDED",
        "PATTERN_REMOVED", "MULTIPLE_OF_REDUCED", "MULTIPLE_OF_REMOVED",
        "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", "REQUIRED_ATTRIBUTE_REMOVED",
        "DEPENDENCY_ARRAY_NARROWED", "DEPENDENCY_ARRAY_REMOVED", "DEPENDENCY_SCHEMA_REMOVED",
        "ADDITIONAL_PROPERTIES_ADDED", "ADDITIONAL_PROPERTIES_EXTENDED",
        "UNEVALUATED_PROPERTIES_ADDED", "UNEVALUATED_PROPERTIES_EXTENDED",
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "UNIQUE_ITEMS_REMOVED", "ADDITIONAL_ITEMS_ADDED", "ADDITIONAL_ITEMS_EXTENDED",
        "UNEVALUATED_ITEMS_ADDED", "UNEVALUATED_ITEMS_EXTENDED",
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ENUM_ARRAY_EXTENDED", "COMBINED_TYPE_EXTENDED", "PRODUCT_TYPE_NARROWED", "SUM_TYPE_EXTENDED",
        "NOT_TYPE_NARROWED",
    }
    | _limits(
        "MAX_LENGTH", "MAXIMUM", "EXCLUSIVE_MAXIMUM", "MAX_PROPERTIES", "MAX_ITEMS", "MAX_CONTAINS",
        harmless="INCREASED",
    )
    | _limits(
        "MIN_LENGTH", "MINIMUM", "EXCLUSIVE_MINIMUM", "MIN_PROPERTIES", "MIN_ITEMS", "MIN_CONTAINS",
        harmless="DECREASED",
    )
)  # fmt: skip

_LENIENT: Final = HARMLESS | {
    "ADDITIONAL_PROPERTIES_NARROWED", "ADDITIONAL_PROPERTIES_REMOVED",
    "UNEVALUATED_PROPERTIES_NARROWED", "UNEVALUATED_PROPERTIES_REMOVED",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}  # fmt: skip


def harmless_under(policy: str) -> frozenset[str]:
    """Return the harmless kinds under a policy; ``LENIENT`` only looks at what data can contain."""
    return _LENIENT if policy == LENIENT else HARMLESS


_KEYWORD: Final = "The keyword at path '%s' in the {reader} schema is not present in the {writer} schema"
_MORE: Final = "The value at path '%s' in the {reader} schema is more than its value in the {writer} schema"
_LESS: Final = "The value at path '%s' in the {reader} schema is less than its value in the {writer} schema"
_VALUE: Final = "The value at path '%s' is different between the {reader} and {writer} schema"
_FEWER: Final = (
    "An array or combined type at path '%s' has fewer elements in the {reader} schema "
    "than the {writer} schema"
)
_GREATER: Final = (
    "An array or combined type at path '%s' has more elements in the {reader} schema than the {writer} schema"
)
_TYPE: Final = "A type at path '%s' is different between the {reader} schema and the {writer} schema"
_TO_OPEN: Final = (
    "The {reader} schema has an open content model and has a property or item at path '%s' which is "
    "missing in the {writer} schema"
)
_TO_UNOPEN: Final = (
    "The {reader} schema has an unopen content model and has a required property at path '%s' which is "
    "missing in the {writer} schema"
)
_FROM_CLOSED: Final = (
    "The {reader} schema has a closed content model and is missing a property or item present at path '%s' "
    "in the {writer} schema"
)
_REMOVED_UNCOVERED: Final = (
    "A property or item is missing in the {reader} schema but present at path '%s' in the {writer} schema "
    "and is not covered by its partially open content model"
)
_ADDED_UNCOVERED: Final = (
    "The {reader} schema has a property or item at path '%s' which is missing in the {writer} schema "
    "and is not covered by its partially open content model"
)

_SENTENCES: Final = {
    **dict.fromkeys(
        (
            "MAXIMUM_ADDED", "MINIMUM_ADDED", "EXCLUSIVE_MAXIMUM_ADDED", "EXCLUSIVE_MINIMUM_ADDED",
            "MULTIPLE_OF_ADDED", "MAX_LENGTH_ADDED", "MIN_LENGTH_ADDED", "PATTERN_ADDED",
            "REQUIRED_ATTRIBUTE_ADDED", "MAX_PROPERTIES_ADDED", "MIN_PROPERTIES_ADDED",
            "DEPENDENCY_ARRAY_ADDED", "DEPENDENCY_SCHEMA_ADDED", "MAX_ITEMS_ADDED", "MIN_ITEMS_ADDED",
            "MAX_CONTAINS_ADDED", "MIN_CONTAINS_ADDED", "UNIQUE_ITEMS_ADDED", "ADDITIONAL_ITEMS_REMOVED",
            "ADDITIONAL_PROPERTIES_REMOVED", "UNEVALUATED_PROPERTIES_REMOVED", "UNEVALUATED_ITEMS_REMOVED",
        ),
        _KEYWORD,
    ),
    **dict.fromkeys(
        (
            "MIN_LENGTH_INCREASED", "MINIMUM_INCREASED", "EXCLUSIVE_MINIMUM_INCREASED",
            "MIN_PROPERTIES_INCREASED", "MULTIPLE_OF_EXPANDED", "MIN_ITEMS_INCREASED",
            "MIN_CONTAINS_INCREASED",
        ),
        _MORE,
    ),
    **dict.fromkeys(
        (
            "MAX_LENGTH_DECREASED", "MAXIMUM_DECREASED", "MAX_ITEMS_DECREASED", "MAX_CONTAINS_DECREASED",
            "EXCLUSIVE_MAXIMUM_DECREASED", "MAX_PROPERTIES_DECREASED",
        ),
        _LESS,
    ),
    **dict.fromkeys(("PATTERN_CHANGED", "MULTIPLE_OF_CHANGED", "DEPENDENCY_ARRAY_CHANGED"), _VALUE),
    **dict.fromkeys(
        (
            "ADDITIONAL_ITEMS_NARROWED", "ENUM_ARRAY_NARROWED", "SUM_TYPE_NARROWED",
            "ADDITIONAL_PROPERTIES_NARROWED", "UNEVALUATED_PROPERTIES_NARROWED", "UNEVALUATED_ITEMS_NARROWED",
        ),
        _FEWER,
    ),
    **dict.fromkeys(
        ("DEPENDENCY_ARRAY_EXTENDED", "PRODUCT_TYPE_EXTENDED", "SUM_TYPE_EXTENDED", "NOT_TYPE_EXTENDED"),
        _GREATER,
    ),
    **dict.fromkeys(
        (
            "TYPE_CHANGED", "TYPE_NARROWED", "COMBINED_TYPE_CHANGED", "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
            "ENUM_ARRAY_CHANGED",
        ),
        _TYPE,
    ),
    **dict.fromkeys(
        (
            "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
            "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
            "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
        ),
        _TO_OPEN,
    ),
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _TO_UNOPEN,
    **dict.fromkeys(
        ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"), _FROM_CLOSED
    ),
    **dict.fromkeys(
        (
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        ),
        _REMOVED_UNCOVERED,
    ),
    **dict.fromkeys(
        (
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        ),
        _ADDED_UNCOVERED,
    ),
}  # fmt: skip


def difference(change: str, path: str, reader_is: str) -> Difference:
    """Return a harmful change in Confluent's words; even the mismatched quotes are Confluent's.

    A change without a sentence of its own (``SCHEMA_ADDED``) has an empty description, as in Confluent's
    server.
    """
    writer_is = "old" if reader_is == "new" else "new"
    sentence = _SENTENCES.get(change, "").format(reader=reader_is, writer=writer_is)
    text = sentence % path if sentence else ""
    return Difference(change, path, f'{{errorType:"{change}", description:"{text}\'}}')
