"""What the HTTP API asks of the process it runs in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from registry.domain.commands import Command, Outcome
from registry.domain.errors import INCOMPATIBLE
from registry.domain.queries.scope import Defaults
from registry.domain.rows.view import View
from snapshots.catalogue.catalogue import Entry

from .status import NodeStatus


class Backend(Protocol):
    """Rows to read and a way to write. A call may raise :class:`~registry.domain.errors.RegistryError`."""

    def view(self) -> AbstractContextManager[View]:
        """The rows at one moment; held shortly, and never across an ``await``."""
        ...

    async def submit(self, command: Command, *, request_id: str = "", forwarded: bool = False) -> Outcome:
        """Have the primary decide ``command``; returns once its effect is visible here.

        ``request_id`` travels along. ``forwarded``: another node sent the request, as its primary's.
        """
        ...

    async def confirm(self) -> bool:
        """Wait until the rows are as new as the log was at the call; whether it came to that in time."""
        ...

    def applied(self) -> int:
        """The offset up to which, exclusively, the rows hold the log."""
        ...

    async def status(self) -> NodeStatus:
        """The state of this host's node."""
        ...

    async def snapshots(self) -> list[Entry]:
        """The snapshots in the catalogue, the newest first."""
        ...

    async def delete_snapshot(self, id: str) -> Entry | None:
        """Delete a snapshot; what is left of it while its files cannot be reached."""
        ...


class Slicing(NamedTuple):
    """How long lists keep the event loop, and when their answers begin."""

    slice_s: float = 0.002
    slice_bytes: int = 64 * 1024
    first_s: float = 0.02  # after that long an answer begins, whatever it has by then
    first_bytes: int = 1024 * 1024  # a page of so many bytes is answered in one piece


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """What the API needs to know besides its backend."""

    defaults: Defaults = field(default_factory=Defaults)
    request_timeout_s: float = 30.0
    compatibility_budget_s: float = 5.0
    """How long the schemas of one request may be compared, in seconds of work."""
    slicing: Slicing = Slicing()
    cluster_id: str = "registrar"
    """Answered by ``/v1/metadata/id`` as the registry's own cluster; Kafka's is the identity of the log."""
    version: str = "0"
    """Answered by ``/v1/metadata/version``."""
    commit: str = ""
    cache_max_age_s: int = 0
    """How long clients may keep what they fetched by id or guid; 0: not at all."""
    cluster: bool = False
    """Others write to the log, so that rows must be confirmed."""
    local_reads: bool = False
    """What is found is answered without asking the log whether it is still so."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may use the API from a browser; ``*`` stands for all."""
    incompatible_error_code: int = INCOMPATIBLE.code
    """What a registration is told that is not compatible."""
    keep_rule_sets: bool = True
    """Otherwise those of requests are dropped before they are looked at."""
    response_headers: tuple[tuple[str, str, str], ...] = ()
    """What the operator wants on every answer: action, name, value; see :mod:`.response_headers`."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that the header ``Host`` may have; none allows all."""
