"""Query parameters and numbers in paths, read as Confluent 8.x reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from registry.domain.errors import NOT_FOUND, UNPROCESSABLE
from registry.domain.log_format.values import LIFECYCLES
from registry.domain.queries.associations import NONE, Filter

_NUMBER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_INT_MIN, INT_MAX = -(2**31), 2**31 - 1

LIST_MAX = 1000
"""The most schemas, or referrers, that one answer lists (Confluent 8.x, ``schema.search.max.limit``)."""


class Parameter(NamedTuple):
    """A query parameter: its name, kind (``flag``, ``number``, ``text``, ``texts``), default and meaning."""

    name: str
    kind: str
    meaning: str
    default: Any = None


def flag(name: str, meaning: str) -> Parameter:
    """True only for the word ``true`` in any letter case."""
    return Parameter(name, "flag", meaning, False)


def number(name: str, meaning: str, default: int) -> Parameter:
    """A 32-bit integer; empty means the default."""
    return Parameter(name, "number", meaning, default)


def word(name: str, meaning: str, default: str | None = "") -> Parameter:
    """A word."""
    return Parameter(name, "text", meaning, default)


def words(name: str, meaning: str) -> Parameter:
    """A word that may be given several times."""
    return Parameter(name, "texts", meaning, ())


def arguments(parameters: Sequence[Parameter], query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The value of each parameter; the first counts where one is given twice. Raises 404 for a bad number."""
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
    """A 32-bit integer; anything else does not exist (404), it is not a bad request."""
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or not _INT_MIN <= value <= INT_MAX:
        raise NOT_FOUND()
    return value


def offset(args: Mapping[str, Any]) -> int:
    """How many items to leave out; a negative offset is refused with 422, where Confluent answers 500."""
    found: int = args["offset"]
    if found < 0:
        raise UNPROCESSABLE("offset must not be negative")
    return found


def limit(args: Mapping[str, Any], most: int) -> int:
    """How many ``limit`` asks for: the maximum where it is zero, negative or above it (Confluent 8.x)."""
    asked: int = args["limit"]
    return asked if 0 < asked <= most else most


def associated(args: Mapping[str, Any]) -> Filter:
    """The filter by associations; an unknown lifecycle does not exist (404), as a bad number does not.

    Nor does an empty one, where Confluent answers 500. Empty types are types, which nothing has.
    """
    lifecycles = args["lifecycle"]
    if not {*lifecycles} <= {*LIFECYCLES, NONE}:
        raise NOT_FOUND()
    return Filter(args["resourceType"], args["associationType"], lifecycles)


OFFSET = number("offset", "How many to leave out at the start", 0)
LIMIT = number("limit", "How many at most; -1: as many as the server allows", -1)
CURSOR = word("cursor", "Where the page begins: taken from the Link header of the page before")
PAGE = (OFFSET, LIMIT, CURSOR)
ASSOCIATED = (
    word("resourceType", "Only subjects associated with a resource of this kind", None),
    words("associationType", "Only subjects with an association of this type: key or value"),
    words("lifecycle", "STRONG, WEAK: only subjects with such an association; NONE: those without any"),
)
DELETED = flag("deleted", "Soft-deleted ones too")
DELETED_ONLY = flag("deletedOnly", "Only soft-deleted ones; wins over deleted")
PERMANENT = flag("permanent", "Delete for good what is already soft-deleted")
NORMALIZE = flag("normalize", "Normalise the schema first")
FIND_TAGS = words("findTags", "With what carries one of these tags; * for any")
FORMAT = word("format", "Form of the schema text, such as resolved")
REFERENCE_FORMAT = word("referenceFormat", "qualified: print the references' subjects with their context")
VERBOSE = flag("verbose", "Say why it is incompatible")
SCOPE = word("subject", "The subject, or the context as :.ctx:, in which the id is sought")
DEFAULT_TO_GLOBAL = flag("defaultToGlobal", "What holds, instead of what is stored")
FORCE = flag("force", "Skip the check")
DRY_RUN = flag("dryRun", "Check only")
CONTEXT = word("context", "The context of unqualified subjects")
