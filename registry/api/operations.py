"""What a resource can do: a row of the route table, and what its handler gets and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from registry.domain import errors
from registry.domain.commands import Command
from registry.domain.errors import ErrorKind
from registry.domain.model import Subject
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying
from registry.domain.queries.sorting import Search
from registry.domain.rows.view import View

from .answers import Answer, Header
from .backend import ApiSettings, Backend
from .listing import Listing
from .parameters import Parameter


@dataclass(frozen=True, slots=True)
class Call:
    """A request as a handler sees it: decoded, its parameters read, its subject's alias followed."""

    path: Mapping[str, str]
    """The variable parts of the path."""
    args: Mapping[str, Any]
    """The query parameters of the operation, defaults filled in."""
    body: bytes
    settings: ApiSettings
    # What is remembered of schemas.
    memory: SchemaMemory
    subject: Subject = Subject(".", "")
    """The subject of the path, where it has one; its alias followed."""
    asked: Subject = Subject(".", "")
    """The same as it stands in the path."""
    operation: str = ""
    """The path's template."""
    plain: bool = False
    """Whether the client wants text for people."""
    from_rows: bool = True
    """Whether a write may be answered from rows; not, when nobody knows whether they are still true."""


class Fresh(Enum):
    """When the rows must be as new as the log."""

    ALWAYS = "what is asked for can change"
    DECIDED = "the primary decides; what is answered from rows instead must be confirmed"
    ON_MISS = "what is found never changes; only its absence must be confirmed"
    NEVER = "no rows are read"


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sought(Generic[_T]):
    """Rows that a handler has to find first, in a search as long as what is stored; it is made in slices."""

    search: Callable[[View], Search[_T]]
    answer: Callable[[View, _T], Computed]


Handled = Answer | Command | Listing[Any] | Sought[Any]
# What is handled once queries about schemas are answered, if there are any.
Computed = Handled | Querying[Handled]
RowHandler = Callable[[Call, View], Computed]
"""Answers from rows, or says which list, search or command answers. It never waits."""
NodeHandler = Callable[[Call, Backend], Awaitable[Answer]]
"""Answers with what only the backend knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    """The template; ``{subject}`` after ``subjects`` follows aliases."""
    summary: str
    handler: RowHandler | None = None
    node_handler: NodeHandler | None = None
    parameters: tuple[Parameter, ...] = ()
    fresh: Fresh = Fresh.ALWAYS
    takes: str = ""
    """The name of the body's schema in the OpenAPI document; empty for none."""
    gives: str = ""
    """The name of the answer's schema there."""
    status: int = 200
    place: str = ""
    """The path of what was made, up to its id, for ``Location``; empty for none."""
    errors: tuple[ErrorKind, ...] = ()
    after: Callable[[Call, View, Answer], Querying[Sequence[Header]]] | None = None
    """Further headers for what a command has been answered, from the rows as they are then."""
    plain: bool = False
    """It answers in text for people too, where that is what the client accepts."""
    own: bool = False
    """A resource of this registry alone: it answers plain JSON and negotiates nothing."""
    needs_json: bool = False
    """A body must be called JSON, which pages of other sites cannot do without asking first."""
    tag: str = ""


VERSION_MISSING = (errors.INVALID_VERSION, errors.SUBJECT_NOT_FOUND, errors.VERSION_NOT_FOUND)
WRITE_ERRORS = (
    errors.NOT_PERMITTED,
    errors.STORE_FAILED,
    errors.OUTCOME_UNKNOWN,
    errors.FORWARD_FAILED,
    errors.NO_PRIMARY,
)
BODY_ERRORS = (
    errors.BAD_REQUEST,
    errors.BODY_TOO_LARGE,
    errors.BODY_TIMEOUT,
    errors.UNSUPPORTED_MEDIA_TYPE,
    errors.UNPROCESSABLE,
)
REGISTER_ERRORS = (
    errors.INVALID_SCHEMA,
    errors.INVALID_SUBJECT,
    errors.SCHEMA_TOO_LARGE,
    errors.INVALID_RULE_SET,
    errors.INCOMPATIBLE,
    *WRITE_ERRORS,
    *BODY_ERRORS,
)
"""Of whatever registers a schema."""
