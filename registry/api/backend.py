"""The interface between the HTTP API and the process that runs it, the state of a node, and settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from registry.domain.commands import Outcome, Submitted
from registry.domain.errors import INCOMPATIBLE, RegistryError
from registry.domain.history.moment import Moment, OwnerRows
from registry.domain.log_format.lineage import Mismatch
from registry.domain.pending_command import NO_ORIGIN, Origin
from registry.domain.policies import NO_POLICIES, Policies
from registry.domain.queries.scope import Defaults
from registry.domain.rows.view import View
from registry.feed.contract import Bounds, Page
from registry.security.gate import NO_SIGN_IN, SessionGate, SignIn
from registry.webhooks.destinations import Destinations
from registry.webhooks.message import Signer


class SnapshotStart(msgspec.Struct, frozen=True, kw_only=True):
    """The loading of a snapshot when a node starts."""

    id: str = ""  # the snapshot that is being loaded, or was; empty: none
    loaded: bool = False  # loading is complete
    offset: int = 0  # the log is read from here
    rows: int = 0
    rows_done: int = 0
    bytes: int = 0  # of its files
    bytes_done: int = 0
    took_s: float = 0.0
    eta_s: float | None = None  # seconds until it is loaded; ``None``: unknown
    refused: list[str] = []  # the snapshots that were rejected, with reasons, in the order of the attempts


class SearchState(msgspec.Struct, frozen=True):
    """The state of a node's search index."""

    built: float  # the part that is there, from 0 to 1
    subjects: int  # in the rows when the build began
    offset: int  # it holds changes before this offset, once it is built
    problem: str = ""  # why it is not built, or does not follow; empty: no problem


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """The state of a node at one moment. Offsets count records: the offset of the next one."""

    role: str  # ``primary``, ``secondary`` or ``following`` (no primary is known yet)
    epoch: int  # the latest epoch in the rows; -1: none
    applied: int  # the store holds the log up to this offset, exclusively
    end: int  # the offset of the log's next record
    digest: str  # of all rows at ``applied``, in hexadecimal
    started: bool  # reads are served: the log was read to its end once, or is away and the store was before
    ready: bool  # the node should get requests
    reasons: list[str]  # why the node is not ready
    ready_for_writes: bool = False  # writes through this node can be carried out
    reasons_for_writes: list[str] = []  # why the node is not ready for writes
    records_per_s: float = 0.0  # rate of catching up
    eta_s: float | None = None  # seconds until the log's end is reached at that rate; ``None``: unknown
    quarantined: int = 0  # records that could not be read
    log: str = ""  # identity of the log
    node: str = ""  # id of this node
    primary: str = ""  # URL of the primary, which may be this node; empty: unknown
    newest_snapshot: str = ""  # id of the newest snapshot of this log that is ready; empty: unknown
    election: str = ""  # why there is no primary, or why this node does not write yet; empty: no problem
    cannot_lead: str = ""  # why this node may not become primary, if it were elected; empty: it may
    metadata_encoder: str = ""  # why sensitive metadata cannot be decrypted or written; empty: no problem
    peer_problems: list[str] = []  # why other nodes are refused, or the primary is not reached
    start: SnapshotStart | None = None  # set if the node started from a snapshot, or tried to
    invalid_files: list[str] = []  # files that settings name and the next start would refuse, with reasons
    history_from: int | None = None  # from this offset on its history lacks nothing; ``None``: it keeps none
    search: SearchState | None = None  # ``None``: the node keeps no search index


class Primacy(msgspec.Struct, frozen=True):
    """A primary, and when a node saw it take over."""

    time: int  # ms since the epoch
    node: str
    url: str
    epoch: int  # -1: not known yet


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a node to the others. Counters begin with its start; offsets as in `NodeStatus`."""

    node: str
    url: str
    version: str = ""
    started_ms: int = 0
    role: str = ""
    epoch: int = -1
    applied: int = 0
    end: int = 0
    digest: str = ""
    ready: bool = False
    reasons: list[str] = []
    ready_for_writes: bool = False
    reasons_for_writes: list[str] = []
    log_error: str = ""  # why the node cannot reach the log; empty if it can
    invalid_files: list[str] = []  # as in `NodeStatus`
    quarantined: int = 0
    store_rows: int = 0
    store_bytes: int = 0
    store_map_bytes: int = 0
    requests: int = 0  # answered by all processes of the host
    failed: int = 0  # of these, with a status of 500 or above, except for probes
    request_s: float = 0.0  # time that all requests together took
    writes: int = 0  # commands that this node decided as primary
    waiting: int = 0  # writes that wait
    primacies: list[Primacy] = []
    age_s: float = 0.0  # time since the node reported this


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as one node knows it."""

    node: str  # id of the node that answers
    primary: str  # URL of the primary; empty: none is known
    problem: str  # why there is no primary, or why this node does not write yet; empty: no problem
    nodes: list[NodeReport]
    primacies: list[Primacy]  # the oldest first
    # When the newest snapshots that are ready, and that failed, were requested; 0: none.
    snapshot_ms: int = 0
    failed_snapshot_ms: int = 0


R = TypeVar("R")
A = TypeVar("A")
# Returns the error that the client gets if the node does not answer, from the one that says why.
Unanswered = Callable[[RegistryError], RegistryError]


class NodeQuery(Generic[R, A]):
    """A query of the node: a row of the table in :mod:`.node_queries`."""

    def __init__(
        self,
        number: int,
        request: type[R],
        answer: type[A],
        *,
        timeout_s: float,
        unanswered: Unanswered = lambda error: error,
    ) -> None:
        """``timeout_s`` limits the answer, in seconds; ``unanswered`` makes the error if there is none."""
        self.number: Final = number
        self.timeout_s: Final = timeout_s
        self.unanswered: Final = unanswered
        self.decode_request: Final[Callable[[bytes], R]] = msgspec.msgpack.Decoder(request).decode
        self.decode_answer: Final[Callable[[bytes], A]] = msgspec.msgpack.Decoder(answer).decode


class Backend(Protocol):
    """Access to rows, writes and the node. Calls may raise :class:`~registry.domain.errors.RegistryError`."""

    def view(self) -> AbstractContextManager[View]:
        """Return the rows at one moment; hold the view briefly, and never across an ``await``."""
        ...

    @property
    def mismatch(self) -> Mismatch | None:
        """The finding that the log is not the one of the rows, as of the newest view; ``None``: it is."""
        ...

    async def submit(self, command: Submitted, origin: Origin = NO_ORIGIN) -> Outcome:
        """Have the primary decide or answer ``command``; return once its effect is visible here."""
        ...

    async def confirm(self) -> bool:
        """Wait until the rows are as new as the log was at the call; return false if that took too long."""
        ...

    def applied(self) -> int:
        """Return the applied offset: the rows include the log up to it, exclusively."""
        ...

    async def status(self) -> NodeStatus:
        """Return the state of this host's node."""
        ...

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> OwnerRows:
        """Return the rows of owners, packed as in row keys, at a moment in the past."""
        ...

    async def events(self, position: int, wait_s: float) -> Page:
        """Return a page of the change feed, see :meth:`registry.feed.contract.Source.events`."""
        ...

    async def ask(self, query: NodeQuery[R, A], request: R) -> A:
        """Return the answer of this host's node to a query of the table."""
        ...


class Slicing(NamedTuple):
    """Duration and size of the slices of lists, and when their answers begin."""

    slice_s: float = 0.002
    slice_bytes: int = 64 * 1024
    first_s: float = 0.02  # after which an answer begins, even without an item
    first_bytes: int = 1024 * 1024  # a smaller page is answered in one piece


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Settings of the API."""

    defaults: Defaults = field(default_factory=Defaults)
    request_timeout_s: float = 30.0
    compatibility_budget_s: float = 5.0  # CPU time for comparing the schemas of one request
    slicing: Slicing = Slicing()
    # The registry cluster in ``/v1/metadata/id``; Kafka's is the identity of the log.
    cluster_id: str = "registrar"
    version: str = "0"  # in ``/v1/metadata/version``
    commit: str = ""
    cache_max_age_s: int = 0  # for schemas fetched by id or guid; 0: no caching
    cluster: bool = False  # other nodes write to the log, so reads need the read barrier
    local_reads: bool = False  # answer hits from the store without the read barrier
    listeners: Bounds = Bounds()  # of the change feed
    cors_origins: tuple[str, ...] = ()  # origins whose pages may use the API; ``*``: all
    incompatible_error_code: int = INCOMPATIBLE.code  # for incompatible registrations
    keep_rule_sets: bool = True  # false: rule sets in requests are ignored
    # Headers for every answer: action, name and value; see :mod:`.browsers`.
    response_headers: tuple[tuple[str, str, str], ...] = ()
    # The policies in force; the primary applies them, readers only warn.
    policies: Callable[[], Policies] = lambda: NO_POLICIES
    allowed_hosts: tuple[str, ...] = ()  # names allowed in ``Host``; empty: all
    open_paths: bool = True  # health, metrics and the API's description need no authentication
    history: bool = True  # nodes keep the history of subjects
    warnings: tuple[str, ...] = ()  # about the settings, for administrators
    sessions: SessionGate | None = None  # of the console; ``None``: there are none
    sign_in: SignIn = NO_SIGN_IN  # the ways to authenticate, for ``GET /me``
    trusted_proxies: tuple[str, ...] = ()  # networks whose ``X-Forwarded-For`` is believed
    webhook_signer: Signer | None = None  # ``None``: webhooks cannot be registered
    destinations: Destinations = field(default_factory=lambda: Destinations((), plain_http=False))
