"""The requests of Kafka's classic group protocol, and nothing else of Kafka's.

The only module that knows aiokafka's low-level classes, which change between its releases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from aiokafka import errors
from aiokafka.conn import AIOKafkaConnection, collect_hosts, create_conn
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

PROTOCOL_TYPE = "sr"
PROTOCOL = "v0"

OK = 0
COORDINATOR_MOVES = frozenset({14, 15, 16})
"""It loads the group, is not available, or is another broker by now."""
ANOTHER_PROTOCOL = 23
OTHER_REBALANCE = 22
UNKNOWN_MEMBER = 25
SESSION_REFUSED = 26
REBALANCING = 27
DENIED = 30
MEMBER_ID_REQUIRED = 79
AGAIN = frozenset({REBALANCING, OTHER_REBALANCE})
"""The group rebalances, or has done so: join again."""

GROUP = 0
"""The kind of coordinator that is asked for."""
CONNECTION_SETTINGS = (
    *("client_id", "security_protocol", "ssl_context", "sasl_mechanism"),
    *("sasl_plain_username", "sasl_plain_password", "sasl_oauth_token_provider"),
    *("sasl_kerberos_service_name", "sasl_kerberos_domain_name"),
)


class Trouble(Exception):
    """Kafka could not be asked, or refused; the text is a plain sentence. The next try may go well."""


class Place(NamedTuple):
    """A node's place in the group."""

    member_id: str
    """As the coordinator named it; "": none yet."""
    rebalance: int
    """The number of the group's rebalance that it took part in last (Kafka's generation id)."""


class Joined(NamedTuple):
    """The answer to a join."""

    code: int
    place: Place
    members: Sequence[tuple[str, bytes]]
    """What each member says of itself, by member id: for the one that elects; empty for the others."""


class Seen(NamedTuple):
    """A member as the coordinator describes it."""

    id: str
    client_id: str
    payload: bytes
    """What it says of itself; empty while the group rebalances."""


class Timing(NamedTuple):
    """How long each waits for the other, in seconds."""

    session_s: float
    rebalance_s: float

    @property
    def answer_s(self) -> float:
        """How long a request that needs no other member may take: the session must outlast two of them."""
        return self.session_s / 3


class Coordinator:
    """The broker that keeps the group.

    Joins have a connection of their own: a broker answers a connection's requests one after another, and a
    join waits for the other members, while heartbeats must go on.
    """

    def __init__(
        self,
        group: str,
        timing: Timing,
        joins: AIOKafkaConnection,
        beats: AIOKafkaConnection,
    ) -> None:
        self._group = group
        self._timing = timing
        self._joins = joins
        self._beats = beats
        self._naming: asyncio.Future[Any] | None = None

    @property
    def naming(self) -> bool:
        """Whether a new member waits for its id."""
        return self._naming is not None and not self._naming.done()

    @classmethod
    async def find(cls, servers: str, security: Mapping[str, Any], group: str, timing: Timing) -> Self:
        """Ask each of ``servers`` in turn, and connect. Raises :class:`Trouble`.

        ``security`` has the names that aiokafka's clients have for them.
        """
        settings = {name: security[name] for name in CONNECTION_SETTINGS if name in security}
        host, port = await _find(servers, settings, group, timing)
        beats = await _connect(host, port, settings, timing.answer_s)
        try:
            joins = await _connect(host, port, settings, timing.rebalance_s + timing.session_s)
        except BaseException:
            beats.close()
            raise
        return cls(group, timing, joins, beats)

    async def join(self, member_id: str, payload: bytes) -> Joined:
        """Join with what this member says of itself; answered when the others have joined too.

        Without ``member_id`` at once: with the id to join with. Cancelling does not take such a request back.
        """
        request = JoinGroupRequest(
            self._group,
            round(self._timing.session_s * 1000),
            round(self._timing.rebalance_s * 1000),
            member_id,
            None,
            PROTOCOL_TYPE,
            [(PROTOCOL, payload)],
        )
        answering: asyncio.Future[Any] = asyncio.ensure_future(_answer(self._joins.send, request))
        if not member_id:
            self._naming = answering
            answering.add_done_callback(lambda answered: answered.cancelled() or answered.exception())
            answering = asyncio.shield(answering)
        answer = await answering
        return Joined(
            answer.error_code,
            Place(answer.member_id, answer.generation_id),
            [(member[0], member[-1]) for member in answer.members],
        )

    async def sync(self, place: Place, assignments: Mapping[str, bytes]) -> tuple[int, bytes]:
        """Say what the members are told (the one that elects), and hear it: an error code and the payload."""
        request = SyncGroupRequest(
            self._group, place.rebalance, place.member_id, None, list(assignments.items())
        )
        answer = await _answer(self._joins.send, request)
        return answer.error_code, answer.member_assignment

    async def heartbeat(self, place: Place) -> int:
        """Say that this member lives; an error code."""
        request = HeartbeatRequest(self._group, place.rebalance, place.member_id)
        return int((await _answer(self._beats.send, request)).error_code)

    async def ask_where(self) -> None:
        """Raise :class:`Trouble` if the broker is gone, or does not keep the group any more."""
        answer = await _answer(self._beats.send, FindCoordinatorRequest(self._group, GROUP))
        if answer.error_code != OK:
            raise refusal(answer.error_code)

    async def leave(self, member_id: str) -> int:
        """Make a member leave, this one or another; an error code."""
        return int((await _answer(self._beats.send, LeaveGroupRequest(self._group, member_id))).error_code)

    async def leave_unnamed(self) -> None:
        """Make leave whom the group has just given an id that nobody has heard.

        Nobody else would: no rebalance ends until such a member has joined or its session is over.
        """
        if self._naming is None:
            return
        try:
            async with asyncio.timeout(self._timing.answer_s):
                named = await self._naming
        except TimeoutError as error:
            raise Trouble("Kafka does not answer: it took too long") from error
        await self.leave(named.member_id)

    async def members(self) -> Sequence[Seen]:
        """Who is in the group."""
        answer = await _answer(self._beats.send, DescribeGroupsRequest([self._group]))
        return [
            Seen(member[0], member[1], member[3])
            for group in answer.groups
            if not group[0]
            for member in group[5]
        ]

    def close(self) -> None:
        """Drop the connections; what waits raises :class:`Trouble`."""
        self._joins.close()
        self._beats.close()


def refusal(code: int) -> Trouble:
    """The error ``code`` of an answer as :class:`Trouble`."""
    error = errors.for_code(code)
    said = {
        **dict.fromkeys(COORDINATOR_MOVES, "the broker does not keep the group, or not yet"),
        ANOTHER_PROTOCOL: "the group is in use by something that is no schema registry",
        SESSION_REFUSED: "the broker refuses this session time-out (group.min.session.timeout.ms)",
        DENIED: "the permission to read the group is missing (operation READ on resource GROUP)",
    }.get(code, getattr(error, "description", None) or error.__name__)
    return Trouble(f"Kafka refused the election: {said} (error {code})")


async def _find(servers: str, settings: Mapping[str, Any], group: str, timing: Timing) -> tuple[str, int]:
    """The address of the group's coordinator, from whichever server says it first."""
    trouble = Trouble(f"no Kafka server is named in {servers!r}")
    asked = [
        asyncio.ensure_future(_ask_where(host, port, settings, group, timing.answer_s))
        for host, port, _ in collect_hosts(servers)
    ]
    try:
        for answer in asyncio.as_completed(asked):
            try:
                return await answer
            except Trouble as error:
                trouble = error
        raise trouble
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _ask_where(
    host: str, port: int, settings: Mapping[str, Any], group: str, timeout_s: float
) -> tuple[str, int]:
    connection = await _connect(host, port, settings, timeout_s)
    try:
        answer = await _answer(connection.send, FindCoordinatorRequest(group, GROUP))
    finally:
        connection.close()
    if answer.error_code != OK:
        raise refusal(answer.error_code)
    return answer.host, answer.port


async def _connect(host: str, port: int, settings: Mapping[str, Any], timeout_s: float) -> AIOKafkaConnection:
    connecting = create_conn(host, port, request_timeout_ms=round(timeout_s * 1000), **settings)
    return await _answered(connecting, f"Kafka at {host}:{port} cannot be reached")


async def _answer(send: Any, request: Any) -> Any:
    try:
        waiting = send(request)
    except errors.KafkaError as error:
        raise Trouble(f"Kafka does not answer: {error}") from error
    return await _answered(waiting, "Kafka does not answer")


async def _answered(waiting: Awaitable[Any], failure: str) -> Any:
    try:
        return await waiting
    except TimeoutError as error:
        raise Trouble(f"{failure}: it took too long") from error
    except (OSError, errors.KafkaError, asyncio.IncompleteReadError) as error:
        raise Trouble(f"{failure}: {error}") from error
