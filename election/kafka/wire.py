"""The requests of Kafka's classic group protocol.

The only module of the election that uses aiokafka's low-level classes, which change between its releases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

from aiokafka import errors
from aiokafka.conn import AIOKafkaConnection, collect_hosts
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
# The coordinator is loading the group, is not available, or is another broker now.
COORDINATOR_MOVES = frozenset({14, 15, 16})
ANOTHER_PROTOCOL = 23
OTHER_REBALANCE = 22
UNKNOWN_MEMBER = 25
SESSION_REFUSED = 26
REBALANCING = 27
DENIED = 30
MEMBER_ID_REQUIRED = 79
# The group is rebalancing, or has rebalanced: the member must rejoin.
REJOIN_CODES = frozenset({REBALANCING, OTHER_REBALANCE})

# The coordinator type of FindCoordinator.
GROUP = 0


class RequestFailed(Exception):
    """Kafka did not answer, or refused; the text is a full sentence. A retry may succeed."""


class Connect(Protocol):
    """Makes a connection with the login of the settings; its own ``connect`` opens it.

    ``connect`` raises ``OSError`` and aiokafka's errors, with a text that names the setting to look at.
    """

    def __call__(self, host: str, port: int, *, timeout_s: float, client_id: str = "") -> AIOKafkaConnection:
        """Return the connection, not open yet; ``timeout_s`` limits each request."""
        ...


class JoinedMember(NamedTuple):
    """A member of one generation of the group."""

    # Assigned by the coordinator; "": none yet.
    member_id: str
    # The generation of the last rebalance that it took part in; -1: none.
    generation_id: int


class JoinAnswer(NamedTuple):
    """The answer to JoinGroup."""

    code: int
    member: JoinedMember
    # The metadata of each member, with its member id. Only the group's leader gets it.
    members: Sequence[tuple[str, bytes]]


class DescribedMember(NamedTuple):
    """A member as DescribeGroups returns it."""

    id: str
    client_id: str
    # Its metadata; empty while the group rebalances.
    payload: bytes


class Timeouts(NamedTuple):
    """The group's timeouts, in seconds."""

    session_s: float
    rebalance_s: float

    @property
    def answer_s(self) -> float:
        """The timeout of requests that wait for no other member. The session must outlast two of them."""
        return self.session_s / 3


class Coordinator:
    """The group's coordinator.

    Joins use a separate connection: a broker answers the requests of a connection in order, and a join waits
    for the other members while heartbeats must go on.
    """

    def __init__(
        self,
        group: str,
        timeouts: Timeouts,
        join_connection: AIOKafkaConnection,
        heartbeats: AIOKafkaConnection,
    ) -> None:
        self._group = group
        self._timeouts = timeouts
        self._join_connection = join_connection
        self._heartbeat_connection = heartbeats
        self._pending_id: asyncio.Future[Any] | None = None

    @property
    def id_pending(self) -> bool:
        """True while a new member waits for its id."""
        return self._pending_id is not None and not self._pending_id.done()

    @classmethod
    async def find(cls, servers: str, connect: Connect, group: str, timeouts: Timeouts) -> Self:
        """Find the coordinator through any of ``servers`` and connect. Raises :class:`RequestFailed`."""
        host, port = await _find(servers, connect, group, timeouts)
        heartbeats = await _connect(connect, host, port, timeouts.answer_s)
        try:
            join_connection = await _connect(connect, host, port, timeouts.rebalance_s + timeouts.session_s)
        except BaseException:
            heartbeats.close()
            raise
        return cls(group, timeouts, join_connection, heartbeats)

    async def join(self, member_id: str, payload: bytes) -> JoinAnswer:
        """Join with this member's metadata; answered when the other members have joined, too.

        Without ``member_id`` the answer comes at once, with the id to join with. Cancelling does not undo
        such a request.
        """
        request = JoinGroupRequest(
            self._group,
            round(self._timeouts.session_s * 1000),
            round(self._timeouts.rebalance_s * 1000),
            member_id,
            None,
            PROTOCOL_TYPE,
            [(PROTOCOL, payload)],
        )
        answering: asyncio.Future[Any] = asyncio.ensure_future(_answer(self._join_connection.send, request))
        if not member_id:
            self._pending_id = answering
            answering.add_done_callback(lambda answered: answered.cancelled() or answered.exception())
            answering = asyncio.shield(answering)
        answer = await answering
        return JoinAnswer(
            answer.error_code,
            JoinedMember(answer.member_id, answer.generation_id),
            [(member[0], member[-1]) for member in answer.members],
        )

    async def sync(self, member: JoinedMember, assignments: Mapping[str, bytes]) -> tuple[int, bytes]:
        """Send all assignments (as the group's leader) and return this one's: error code and payload."""
        request = SyncGroupRequest(
            self._group, member.generation_id, member.member_id, None, list(assignments.items())
        )
        answer = await _answer(self._join_connection.send, request)
        return answer.error_code, answer.member_assignment

    async def heartbeat(self, member: JoinedMember) -> int:
        """Send a heartbeat; return its error code."""
        request = HeartbeatRequest(self._group, member.generation_id, member.member_id)
        return int((await _answer(self._heartbeat_connection.send, request)).error_code)

    async def check_coordinator(self) -> None:
        """Raise :class:`RequestFailed` if the broker is gone or no longer the group's coordinator."""
        answer = await _answer(self._heartbeat_connection.send, FindCoordinatorRequest(self._group, GROUP))
        if answer.error_code != OK:
            raise error_for(answer.error_code)

    async def leave(self, member_id: str) -> int:
        """Remove a member, this one or another; return the error code."""
        return int(
            (
                await _answer(self._heartbeat_connection.send, LeaveGroupRequest(self._group, member_id))
            ).error_code
        )

    async def leave_pending(self) -> None:
        """Remove the member whose id the coordinator has assigned but this node has not received.

        Otherwise no rebalance would end until that member's session expires.
        """
        if self._pending_id is None:
            return
        try:
            async with asyncio.timeout(self._timeouts.answer_s):
                named = await self._pending_id
        except TimeoutError as error:
            raise RequestFailed("Kafka does not answer: it took too long") from error
        await self.leave(named.member_id)

    async def members(self) -> Sequence[DescribedMember]:
        """Return the members of the group."""
        answer = await _answer(self._heartbeat_connection.send, DescribeGroupsRequest([self._group]))
        return [
            DescribedMember(member[0], member[1], member[3])
            for group in answer.groups
            if not group[0]
            for member in group[5]
        ]

    def close(self) -> None:
        """Close the connections; waiting calls raise :class:`RequestFailed`."""
        self._join_connection.close()
        self._heartbeat_connection.close()


def error_for(code: int) -> RequestFailed:
    """Return the exception for an answer's error code."""
    error = errors.for_code(code)
    description = {
        **dict.fromkeys(COORDINATOR_MOVES, "the broker is not the group's coordinator, or not yet"),
        ANOTHER_PROTOCOL: "the group is used by something other than schema registries",
        SESSION_REFUSED: "the broker refuses this session timeout (group.min.session.timeout.ms)",
        DENIED: "the permission to read the group is missing (operation READ on resource GROUP)",
    }.get(code, getattr(error, "description", None) or error.__name__)
    return RequestFailed(f"Kafka refused the election: {description} (error {code})")


async def _find(servers: str, connect: Connect, group: str, timeouts: Timeouts) -> tuple[str, int]:
    """Return the address of the group's coordinator, from the first server that answers."""
    failure = RequestFailed(f"no Kafka server is named in {servers!r}")
    asked = [
        asyncio.ensure_future(_query_coordinator(connect, host, port, group, timeouts.answer_s))
        for host, port, _ in collect_hosts(servers)
    ]
    try:
        for answer in asyncio.as_completed(asked):
            try:
                return await answer
            except RequestFailed as error:
                failure = error
        raise failure
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _query_coordinator(
    connect: Connect, host: str, port: int, group: str, timeout_s: float
) -> tuple[str, int]:
    connection = await _connect(connect, host, port, timeout_s)
    try:
        answer = await _answer(connection.send, FindCoordinatorRequest(group, GROUP))
    finally:
        connection.close()
    if answer.error_code != OK:
        raise error_for(answer.error_code)
    return answer.host, answer.port


async def _connect(connect: Connect, host: str, port: int, timeout_s: float) -> AIOKafkaConnection:
    connection = connect(host, port, timeout_s=timeout_s)
    await _await_answer(connection.connect(), f"Kafka at {host}:{port} cannot be reached")
    return connection


async def _answer(send: Any, request: Any) -> Any:
    try:
        waiting = send(request)
    except errors.KafkaError as error:
        raise RequestFailed(f"Kafka does not answer: {error}") from error
    return await _await_answer(waiting, "Kafka does not answer")


async def _await_answer(waiting: Awaitable[Any], failure: str) -> Any:
    try:
        return await waiting
    except TimeoutError as error:
        raise RequestFailed(f"{failure}: it took too long") from error
    except (OSError, errors.KafkaError, asyncio.IncompleteReadError) as error:
        raise RequestFailed(f"{failure}: {error}") from error
