"""Operations: the rows of the route table, and the arguments and results of their handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from registry.domain import errors
from registry.domain.commands import Command, Submitted
from registry.domain.errors import ErrorKind
from registry.domain.model import Subject
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying
from registry.domain.principal import CheckedNames
from registry.domain.queries.scope import ConfiguredSubject
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
from registry.security.gate import EVERYONE, READING, Access, Admission, RecordingAccess

from .answers import Answer, Header
from .backend import ApiSettings, Backend, NodeQuery
from .listing import Listing
from .parameters import Parameter
from .past import PastRows
from .permissions import RequiredPermission
from .request_context import RequestContext


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request as a handler sees it: decoded, its parameters read, its subject's alias followed."""

    context: RequestContext
    path: Mapping[str, str]  # path parameters
    args: Mapping[str, Any]  # query parameters, with defaults
    body: bytes
    settings: ApiSettings
    # Cache of facts about schemas.
    memory: SchemaMemory
    subject: Subject = Subject(".", "")  # the subject in the path, if any, with its alias resolved
    requested_subject: Subject = Subject(".", "")  # the same without resolving aliases
    # The subject and its own config, in paths that follow aliases.
    place: ConfiguredSubject = ConfiguredSubject(Subject(".", ""), None)
    operation: str = ""  # the path's template
    plain: bool = False  # the client prefers plain text
    # False if a write must not be answered from rows, because they may be stale.
    confirmed: bool = True
    past: PastRows | None = None  # the rows of the moment that was asked for, if it is not the present
    sender: Admission = EVERYONE
    # The sender's access in a write that rules limit; it remembers what is checked.
    recorder: RecordingAccess | None = None

    @property
    def access(self) -> Access:
        """The access of the principal that sent the request."""
        return self.sender.access if self.recorder is None else self.recorder

    @property
    def strict_references(self) -> bool:
        """True if a schema may not use two versions of one reference's name."""
        return self.settings.defaults.strict_references


class Freshness(Enum):
    """Requirement on how recent the rows are."""

    ALWAYS = "the data can change"
    DECIDED = "the primary decides; only answers from rows instead must be confirmed"
    ON_MISS = "the data never changes; only a miss must be confirmed"
    NEVER = "no rows are read"


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PendingSearch(Generic[_T]):
    """A search that has to find rows first; it runs in slices, because it may take as long as the store."""

    search: Callable[[View], Search[_T]]
    answer: Callable[[View, _T], Computation]


@dataclass(frozen=True, slots=True)
class PendingQuery(Generic[_T]):
    """A query that the node has to answer first; ``answer`` also gets the rows."""

    query: NodeQuery[Any, _T]
    request: Any
    answer: Callable[[View, _T], Computation]


class Member(NamedTuple):
    """A part of an answer: the text before it, and what returns its JSON."""

    head: bytes
    work: Callable[[View], Computation]


@dataclass(frozen=True, slots=True)
class Parts:
    """The answers of several requests in one: a JSON text that is sent as its members are found.

    ``members`` yields them, is sent the text of each, and returns the text after the last one. Each may take
    as long as a request of its own, and none is begun once the client is gone. An error of the first one is
    that of the request; one of the others is a member, with the members of an error.
    """

    members: Generator[Member, bytes, bytes]


class Write(NamedTuple):
    """A command, and what is done to the answer if it is executed: headers to add, and the rest."""

    command: Submitted
    headers: tuple[Header, ...]
    finished: Callable[[Answer], Answer] = lambda answer: answer
    # The request as the handler saw it, if the operation has further headers.
    call: Call | None = None
    # As in :class:`~registry.domain.pending_command.CommandRequest`; not for handlers to set.
    checked: CheckedNames | None = None


Result = Answer | Command | Write | Listing[Any] | PendingSearch[Any] | PendingQuery[Any] | Parts
# The result itself, or the computation of it, which may query schemas.
Computation = Result | Querying[Result]
FindHeaders = Callable[[View], Querying[Sequence[Header]]]
# Answers from rows, or returns the list, search or command that answers. It never waits.
RowHandler = Callable[[Call, View], Computation]
# Answers with data of the node.
NodeHandler = Callable[[Call, Backend], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str  # the template; in ``/subjects/{subject}`` aliases are resolved
    summary: str
    permission: RequiredPermission
    handler: RowHandler | None = None
    node_handler: NodeHandler | None = None
    parameters: tuple[Parameter, ...] = ()
    freshness: Freshness = Freshness.ALWAYS
    request_schema: str = ""  # name of the request body's schema in the OpenAPI document; empty: no body
    response_schema: str = ""  # name of the answer's schema
    status: int = 200
    location: str = ""  # path of a created object up to its id, for ``Location``; empty: none
    errors: tuple[ErrorKind, ...] = ()
    # What finds further headers for the answer to a command in the rows after it; ``None``: there are none.
    extra_headers: Callable[[Call, Answer], FindHeaders | None] | None = None
    plain: bool = False  # can answer in plain text
    own: bool = False  # not in Confluent's API: answers ``application/json`` without content negotiation
    # Bodies must have a JSON media type, which pages of other sites cannot send without a preflight.
    needs_json: bool = False
    streams: bool = False  # answers with server-sent events to clients that accept them
    tag: str = ""
    tagged: bool = False  # answers with an ETag
    # ``If-Match`` and ``If-None-Match`` are conditions of the write.
    conditional: bool = False
    # The handler sees rows of all subjects, and shows only what it has checked; if false, it sees only what
    # the principal may read.
    sees_all: bool = False
    writes: bool = field(init=False)  # it changes something

    def __post_init__(self) -> None:
        """Find out if it writes."""
        writes = self.method != "GET" and not READING.issuperset(self.permission.any_of)
        object.__setattr__(self, "writes", writes)
        if self.conditional:
            object.__setattr__(self, "errors", (errors.STATE_CHANGED, *self.errors))


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
    errors.CREATION_DENIED,
    errors.REGISTRATION_DENIED,
    errors.LINT_BROKEN,
    errors.VERSIONS_LIMIT,
    errors.ID_TOO_FAR,
    errors.IDS_USED_UP,
    *WRITE_ERRORS,
    *BODY_ERRORS,
)
