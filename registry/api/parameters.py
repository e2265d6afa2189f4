"""Query parameters and numbers in paths, read as Confluent 8.x reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from registry.domain.errors import NOT_FOUND, UNPROCESSABLE
from registry.domain.log_format.subject_values import LIFECYCLES
from registry.domain.queries.associations import NONE, Filter
from registry.domain.target_names import TARGET_NAMES

_NUMBER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_INT_MIN, INT_MAX = -(2**31), 2**31 - 1

# Schemas or referrers in one page at most (Confluent 8.x, ``schema.search.max.limit``).
LIST_MAX = 1000


class Parameter(NamedTuple):
    """A query parameter: its name, kind (``flag``, ``number``, ``text``, ``texts``), default and meaning."""

    name: str
    kind: str
    meaning: str
    default: Any = None


def flag(name: str, meaning: str) -> Parameter:
    """Return a boolean parameter: true only for ``true`` in any letter case."""
    return Parameter(name, "flag", meaning, False)


def number(name: str, meaning: str, default: int) -> Parameter:
    """Return a parameter that is a 32-bit integer; empty means the default."""
    return Parameter(name, "number", meaning, default)


def word(name: str, meaning: str, default: str | None = "") -> Parameter:
    """Return a parameter that is a string."""
    return Parameter(name, "text", meaning, default)


def words(name: str, meaning: str) -> Parameter:
    """Return a parameter that is a string and can be repeated."""
    return Parameter(name, "texts", meaning, ())


def arguments(parameters: Sequence[Parameter], query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the value of each parameter, the first one if repeated. Raises 404 for a bad number."""
    out: dict[str, Any] = {parameter.name: parameter.default for parameter in parameters}
    if query:
        given: dict[str, list[str]] = {}
        for name, value in query:
            given.setdefault(name, []).append(value)
        for parameter in parameters:
            values = given.get(parameter.name)
            if values is not None:
                out[parameter.name] = _value(parameter, values)
    return out


def _value(parameter: Parameter, values: list[str]) -> Any:
    match parameter.kind:
        case "flag":
            return values[0].lower() == "true"
        case "number":
            return path_number(values[0]) if values[0] else parameter.default
        case "texts":
            return tuple(values)
        case _:
            return values[0]


def path_number(text: str) -> int:
    """Read a 32-bit integer; anything else does not exist (404) and is not a bad request."""
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or not _INT_MIN <= value <= INT_MAX:
        raise NOT_FOUND()
    return value


def offset(args: Mapping[str, Any]) -> int:
    """Return the number of items to skip; a negative offset is 422, where Confluent answers 500."""
    found: int = args["offset"]
    if found < 0:
        raise UNPROCESSABLE("offset must not be negative")
    return found


def limit(args: Mapping[str, Any], most: int) -> int:
    """Return ``limit``, or the maximum if it is zero, negative or above that (Confluent 8.x)."""
    requested: int = args["limit"]
    return requested if 0 < requested <= most else most


def split_names(values: Iterable[str]) -> list[str]:
    """Return the names in the values of a parameter that is repeated, or has several with commas between."""
    return [name.strip() for each in values for name in each.split(",") if name.strip()]


def association_filter(args: Mapping[str, Any]) -> Filter:
    """Return the filter by associations; an unknown lifecycle does not exist (404), like a bad number.

    So does an empty one, where Confluent answers 500. Empty types are types that no association has.
    """
    lifecycles = args["lifecycle"]
    if not {*lifecycles} <= {*LIFECYCLES, NONE}:
        raise NOT_FOUND()
    return Filter(args["resourceType"], args["associationType"], lifecycles)


OFFSET = number("offset", "Number of items to skip", 0)
LIMIT = number("limit", "Maximum number of items; -1: the server's maximum", -1)
CURSOR = word("cursor", "Start of the page, from the Link header of the previous page")
PAGE = (OFFSET, LIMIT, CURSOR)
ASSOCIATED = (
    word("resourceType", "Only subjects associated with a resource of this type", None),
    words("associationType", "Only subjects with an association of this type: key or value"),
    words(
        "lifecycle", "STRONG or WEAK: only subjects with such an association; NONE: only subjects without one"
    ),
)
AGAINST = word("against", "The version to compare with; empty: the one before")
DELETED = flag("deleted", "Include soft-deleted ones")
DELETED_ONLY = flag("deletedOnly", "Only soft-deleted ones; overrides deleted")
PERMANENT = flag("permanent", "Delete permanently; it must be soft-deleted already")
FORCE_DELETE = flag(
    "force", "Delete permanently even what messages may still use; needs the permission force"
)
NORMALIZE = flag("normalize", "Normalize the schema first")
FIND_TAGS = words("findTags", "Include the schema parts with one of these tags; * for any")
FORMAT = word("format", "Format of the schema text, such as resolved")
FORMAT_OR_DDL = word("format", "Format of the schema text, such as resolved; logical: the table, as DDL")
DDL_OR_FORMAT = word(
    "format",
    "logical: the schema is DDL, to be registered as schemaType; else the format of the answer's text, such "
    "as resolved",
)
REFERENCE_FORMAT = word("referenceFormat", "qualified: print the references' subjects with their context")
VERBOSE = flag("verbose", "Include the reasons why it is incompatible")
LEVEL = word(
    "level",
    "The compatibility level to check at, instead of the one in force; also BACKWARD_USED, FORWARD_USED and "
    "FULL_USED: against the versions that messages use, by the newest census",
)
TARGET = words(
    "target", f"Engine or table format whose tables must be able to follow: {', '.join(TARGET_NAMES)}"
)
SCOPE = word("subject", "The subject, or the context as :.ctx:, in which to look up the id")
DEFAULT_TO_GLOBAL = flag("defaultToGlobal", "Return the effective value instead of the stored one")
FORCE = flag("force", "Skip the check")
DRY_RUN = flag("dryRun", "Check only")
CONTEXT = word("context", "The context of unqualified subjects")
CONTEXT_PREFIX = word("contextPrefix", "Prefix of the name, which starts with a dot")
