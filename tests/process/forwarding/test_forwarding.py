"""Writes through a secondary, over real endpoints and real connections."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from registry.domain.admission import LARGE_BYTES
from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Command,
    Condition,
    DeleteSubject,
    Done,
    IdempotencyKey,
    NotPrimary,
    PutConfig,
    PutUsage,
    Refused,
    Register,
    Unknown,
)
from registry.domain.log_format.records import AppendedBatch
from registry.domain.pending_command import CommandRequest
from registry.domain.principal import CheckedNames
from registry.forwarding.authentication import Security, Signing
from registry.forwarding.http2_connection import connect
from registry.forwarding.node_port import COMMANDS, Batch, encode, outcome_of, outcomes_of
from registry.forwarding.primary_client import UNDER_WAY_MAX
from tests.process.forwarding.certificates import security
from tests.process.forwarding.members import ROOM_BYTES, Group, Member, group
from tests.support.certificates import Authority
from tests.support.pending import pending
from tests.support.running import free_port, until_async

SCHEMA = '{"type":"record","name":"R","fields":[]}'


class OldWanted(msgspec.Struct):
    """The identity as sent by the version before idempotency keys; likewise the next class."""

    command: Command
    remaining_s: float
    request_id: str = ""


class OldBatch(msgspec.Struct):
    wanted: list[OldWanted]


def running(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*given, **named), 30))

    return run


def in_s(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


def under_way(nodes: Group) -> int:
    return sum(member.peers.forwarding.under_way for member in nodes.members)


def submit(member: Member, command: Any, seconds: float = 5.0, **options: Any) -> Any:
    return outcome_of(member.peers.forwarding.submit, pending(command, deadline=in_s(seconds), **options))


def client_of(member: Member) -> Any:
    return member.peers.forwarding._client


async def until_met(member: Member) -> None:
    """Wait until a write is sent at once, however short its time."""
    client = client_of(member)
    await until_async(lambda: client._connection.peer, "the connection to the primary")


async def until_in_vain(member: Member) -> None:
    """Wait until it knows why it cannot reach the primary, so that its reply does not depend on a write's
    time.
    """
    client = client_of(member)
    await until_async(lambda: client.last_error, "the error")


@running
async def test_a_write_through_a_secondary_is_decided_by_the_primary_and_visible_at_the_secondary() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        outcome = await submit(nodes.members[1], Register("s", SCHEMA))
        assert isinstance(outcome, Done)
        assert orjson.loads(outcome.body)["id"] == 1
        assert nodes.members[0].decided == [Register("s", SCHEMA)]
        assert nodes.members[1].at >= outcome.offset


@running
async def test_a_secondary_waits_for_records_when_it_has_sent_a_command_and_the_primary_does_not_for_it() -> (
    None
):
    async with group(2) as nodes:
        primary, secondary = nodes.members
        nodes.elect(0)
        await until_met(secondary)
        await submit(primary, Register("own", SCHEMA))
        assert (secondary.expected, primary.once_logged) == (0, [False])
        await submit(secondary, Register("sent", SCHEMA))
        assert (primary.expected, secondary.expected) == (0, 1)
        assert primary.once_logged == [False, True]


@running
async def test_the_records_of_a_single_command_come_with_its_outcome_and_are_not_expected_from_then_on() -> (
    None
):
    async with group(2) as nodes:
        primary, secondary = nodes.members
        primary.passes_on = True
        nodes.elect(0)
        await until_met(secondary)
        first = await submit(secondary, Register("first", SCHEMA))
        second = await submit(secondary, Register("second", SCHEMA))
        batches = [AppendedBatch(b"%d" % each.offset, 5) for each in (first, second)]
        assert secondary.taken == [("log", batch) for batch in batches]
        assert secondary.expected == 1
        await asyncio.gather(*(submit(secondary, Register(name, SCHEMA)) for name in "abc"))
        assert len(secondary.taken) == 2, "those of several commands are fetched"
        await submit(secondary, Register("next", SCHEMA))
        assert secondary.expected == 2


@pytest.mark.parametrize("text", [SCHEMA, " " * LARGE_BYTES + SCHEMA], ids=["small", "large"])
@running
async def test_the_primary_refuses_a_write_whose_alias_the_secondary_did_not_know(text: str) -> None:
    mine = CheckedNames(names={"write": frozenset({"s", "mine"})})
    async with group(2) as nodes:
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", text), checked=mine), Done)
        for target, taken in (("mine", True), ("theirs", False)):
            assert isinstance(await submit(nodes.members[0], PutConfig("s", {"alias": target})), Done)
            outcome = await submit(nodes.members[1], Register("s", text), checked=mine)
            assert isinstance(outcome, Done) is taken
        assert (outcome.code, outcome.retry_after_s) == (503, 1)


@running
async def test_a_refusal_of_the_primary_comes_back_as_it_is() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        outcome = await submit(nodes.members[1], DeleteSubject("missing"))
        assert outcome == Refused(40401, "Subject 'missing' not found.")


@running
async def test_many_writes_go_together_and_each_gets_its_own_answer() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        commands = [Register(f"s{number}", SCHEMA) for number in range(1200)]
        outcomes = await asyncio.gather(*(submit(nodes.members[1], each, 20) for each in commands))
        assert all(isinstance(each, Done) for each in outcomes)
        assert sorted(each.subject for each in nodes.members[0].decided) == sorted(
            each.subject for each in commands
        )


@running
async def test_a_schema_larger_than_the_flow_control_window_arrives_whole() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        doc = "x" * 900_000
        schema = orjson.dumps({"type": "record", "name": "R", "fields": [], "doc": doc}).decode()
        outcome = await submit(nodes.members[1], Register("s", schema))
        assert isinstance(outcome, Done)
        assert doc in orjson.loads(outcome.body)["schema"]


@running
async def test_a_write_waits_for_a_primary() -> None:
    async with group(2) as nodes:
        nodes.elect(None)
        waiting = asyncio.ensure_future(submit(nodes.members[1], Register("s", SCHEMA)))
        await until_async(lambda: under_way(nodes), "it to wait")
        nodes.elect(0)
        assert isinstance(await waiting, Done)


@running
async def test_without_a_primary_in_time_it_is_refused() -> None:
    async with group(2) as nodes:
        nodes.elect(None)
        assert await submit(nodes.members[1], Register("s", SCHEMA), 0.1) == Refused(
            50004, "Leader not known."
        )


@running
async def test_a_primary_out_of_reach_is_distinguished_from_none() -> None:
    async with group(2) as nodes:
        await nodes.members[0].peers.stop(1.0)
        nodes.elect(0)
        await until_in_vain(nodes.members[1])
        outcome = await submit(nodes.members[1], Register("s", SCHEMA), 0.3)
        assert isinstance(outcome, Refused)
        assert outcome.code == 50003


@running
async def test_a_node_that_is_no_primary_any_more_hands_nothing_on() -> None:
    async with group(3) as nodes:
        nodes.elect(0)
        nodes.members[0].role, nodes.members[0].primary = "secondary", nodes.identities[2]
        nodes.members[2].role = "primary"
        await until_met(nodes.members[1])
        outcome = await submit(nodes.members[1], Register("s", SCHEMA), 0.3)
        # A last attempt may be in progress when the time is up.
        assert outcome == Refused(50004, "Leader not known.") or isinstance(outcome, Unknown)
        assert not nodes.members[0].decided
        assert not nodes.members[2].decided


@running
async def test_what_the_former_primary_did_not_take_goes_to_the_next() -> None:
    async with group(3) as nodes:
        nodes.elect(0)
        nodes.members[0].role = "secondary"  # This one knows already; the others do not.
        waiting = asyncio.ensure_future(submit(nodes.members[1], DeleteSubject("s")))
        await until_async(lambda: under_way(nodes), "it to wait")
        nodes.elect(2)
        assert isinstance(await waiting, Refused)
        assert nodes.members[2].decided == [DeleteSubject("s")]


async def unanswered(
    nodes: Group, command: Any, *, through: int = 1, in_doubt: bool = False
) -> asyncio.Future[Any]:
    """Submit a command through a node to the first node, which is primary, has it and does not answer."""
    nodes.elect(0)
    nodes.members[0].answers = False
    waiting = asyncio.ensure_future(submit(nodes.members[through], command, in_doubt=in_doubt))
    await until_async(lambda: nodes.members[0].unanswered, "the primary to have the command")
    return waiting


@running
async def test_a_registration_of_unknown_outcome_is_sent_again_to_the_next_primary() -> None:
    async with group(3) as nodes:
        waiting = await unanswered(nodes, Register("s", SCHEMA))
        nodes.elect(2)
        assert isinstance(await waiting, Done)
        assert nodes.members[2].decided == [Register("s", SCHEMA)]


@running
async def test_a_refusal_after_an_unknown_outcome_does_not_say_that_nothing_was_done() -> None:
    async with group(3) as nodes:
        waiting = await unanswered(nodes, Register("s", SCHEMA))
        nodes.members[2].full = True
        nodes.elect(2)
        assert isinstance(await waiting, Unknown)


@running
async def test_a_connection_that_takes_no_more_requests_is_replaced() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        client = client_of(nodes.members[1])
        client._connection.peer._connection._h2.highest_outbound_stream_id = 2**31 - 1
        # Large commands are requests; small ones use the stream.
        large = SCHEMA.replace("[]", "[]" + " " * LARGE_BYTES)
        assert isinstance(await submit(nodes.members[1], Register("t", large)), Done)


@running
async def test_a_body_without_end_in_itself_is_no_batch() -> None:
    async with group(1) as nodes:
        nodes.elect(0)
        connection = await connect(nodes.identities[0].peer, 5.0)
        endless = b"\x91" * 100_000 + b"\x90"
        command = b"\x83\xa4type\xa9PutConfig\xa7subject\xa1s\xa5patch\x81\xa1a" + endless
        body = b"\x81\xa6wanted\x91\x82\xa7command" + command + b"\xabremaining_s\x01"
        assert (await connection.request("POST", COMMANDS, body=body)).status == 400
        await connection.close()


class Unsigning(Signing):
    """A server that accepts signed requests, but signs no answer."""

    def answer(self, request: Any, status: int, body: bytes) -> Any:
        return []


@running
async def test_an_answer_that_somebody_else_gave_leaves_the_outcome_unknown() -> None:
    secret = "a secret of sixteen"
    async with group(2, Security(secret=secret)) as nodes:
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        server: Any = nodes.members[0].peers._server
        server._signings.current = (Unsigning(secret),)
        for call in server._calls:
            call._sender.seal(b"another key")
        assert isinstance(await submit(nodes.members[1], DeleteSubject("s")), Unknown)
        assert nodes.members[0].decided.count(DeleteSubject("s")) == 1


@running
async def test_a_refusal_that_is_not_signed_leaves_the_outcome_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(send: Any, *_: object) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def without(*_: object) -> None:
        """Open no stream, whose frames are sealed: each batch is then a request with a signed answer."""

    monkeypatch.setattr("registry.forwarding.peer_client.Peer.open_stream", without)
    async with group(2, Security(secret="a secret of sixteen")) as nodes:
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        monkeypatch.setattr("registry.forwarding.server._answer", refuse)
        assert isinstance(await submit(nodes.members[1], DeleteSubject("s"), 2.0), Unknown)
        assert nodes.members[0].decided.count(DeleteSubject("s")) == 1


@running
async def test_a_deletion_of_unknown_outcome_is_sent_again_as_the_same_command() -> None:
    async with group(3) as nodes:
        waiting = await unanswered(nodes, DeleteSubject("s"))
        nodes.elect(2)
        assert await waiting == Refused(40401, "Subject 's' not found.")
        assert nodes.members[2].idempotency_keys == nodes.members[0].idempotency_keys
        assert nodes.members[2].idempotency_keys[0] is not None


@pytest.mark.parametrize("older", [0, 2], ids=["the one that was asked", "the next one"])
@running
async def test_a_deletion_of_unknown_outcome_is_not_sent_again_among_older_nodes(older: int) -> None:
    async with group(3) as nodes:
        nodes.members[older].repeats = False
        waiting = await unanswered(nodes, DeleteSubject("s"))
        nodes.elect(2)
        assert isinstance(await waiting, Unknown)
        assert not nodes.members[2].decided


REFUSED = Refused(409, "another try may have been done")


@pytest.mark.parametrize(("older", "answer"), [(0, Unknown), (2, Refused)])
def test_a_refusal_is_weighed_by_who_sent_it_and_not_by_who_is_primary_when_it_comes(
    older: int, answer: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a node that honors idempotency keys has checked if an earlier attempt was executed."""
    monkeypatch.setattr("registry.forwarding.command_forwarder.RETIRE_S", 30.0)

    async def refuse_late() -> None:
        async with group(3) as nodes:
            nodes.members[older].repeats = False
            waiting = await unanswered(nodes, Register("s", SCHEMA), in_doubt=True)
            nodes.elect(2)
            await until_met(nodes.members[1])
            nodes.members[0].unanswered.pop()(REFUSED)
            assert isinstance(await waiting, answer)
            assert not nodes.members[2].decided

    asyncio.run(asyncio.wait_for(refuse_late(), 30))


@running
async def test_what_is_in_doubt_and_takes_long_is_not_sent_again_to_an_older_node() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        primary, secondary = nodes.members
        primary.long = {"s"}
        client = client_of(secondary)
        await until_met(secondary)
        peer = client._connection.peer
        peer.status = msgspec.structs.replace(peer.status, repeats=False)
        deletion = pending(DeleteSubject("s"), deadline=in_s(5), in_doubt=True, deferrable=False)
        assert isinstance(await client.ask(deletion), Unknown)
        assert not primary.unanswered


@running
async def test_what_a_node_of_an_earlier_release_would_not_understand_is_not_sent_to_it() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        primary, secondary = nodes.members
        client = client_of(secondary)
        await until_met(secondary)
        peer, condition = client._connection.peer, Condition(none_match=["*"])
        now = peer.status
        peer.status = msgspec.structs.replace(now, conditions=False)
        refused = await submit(secondary, Register("s", SCHEMA), condition=condition)
        assert (refused.code, "would ignore If-Match" in refused.message) == (503, True)
        refused = await submit(secondary, PutUsage("orders", b"{}"))
        assert (refused.code, "takes no census" in refused.message) == (503, True)
        for patch in ({"compatibilityLevel": "full_used"}, {"compatibilityUsed": True}):
            refused = await submit(secondary, PutConfig("s", patch))
            assert (refused.code, "takes no census" in refused.message) == (503, True)
        assert not primary.decided
        peer.status = now
        assert isinstance(await submit(secondary, Register("s", SCHEMA), condition=condition), Done)


@running
async def test_a_deletion_that_a_primary_does_not_remember_far_enough_stays_unknown() -> None:
    async with group(3) as nodes:
        waiting = await unanswered(nodes, DeleteSubject("s"))
        nodes.members[2].remembers_since = 1
        nodes.elect(2)
        assert isinstance(await waiting, Unknown)
        assert not nodes.members[2].decided


@running
async def test_a_command_that_certainly_was_not_done_gets_a_newer_ticket_when_its_own_is_too_old() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[0], Register("s", SCHEMA)), Done)
        assert nodes.members[1].at == 0, "it knows nothing of the log's end"
        nodes.members[0].remembers_since = nodes.members[0].at
        assert isinstance(await submit(nodes.members[1], DeleteSubject("s")), Done)
        idempotency_key = nodes.members[0].idempotency_keys[-1]
        assert idempotency_key is not None
        assert idempotency_key.since == nodes.members[0].remembers_since


@running
async def test_nodes_that_know_of_no_tickets_understand_those_that_do_and_are_understood() -> None:
    """A batch and its answer as the previous version encodes them."""
    old_batch = {
        "wanted": [{"command": {"type": "Register", "subject": "s", "schema": SCHEMA}, "remaining_s": 5.0}],
        "node": "old",
    }
    async with group(1) as nodes:
        nodes.elect(0)
        connection = await connect(nodes.identities[0].peer, 5.0)
        answer = await connection.request("POST", COMMANDS, body=msgspec.msgpack.encode(old_batch))
        await connection.close()
        assert msgspec.msgpack.decode(answer.body)["outcomes"][0]["type"] == "Done"
        assert nodes.members[0].idempotency_keys == [None]
    old_answer = msgspec.msgpack.encode({"outcomes": [{"type": "Unknown", "message": "why"}]})
    assert outcomes_of(old_answer, 1).outcomes == [Unknown("why", repeats=False)]
    new = Batch(
        [CommandRequest(DeleteSubject("s"), 1.0, "r", IdempotencyKey(b"0" * IDEMPOTENCY_KEY_BYTES, 7))]
    )

    understood = msgspec.msgpack.decode(encode(new), type=OldBatch)
    assert understood.wanted[0].command == DeleteSubject("s")


@running
async def test_an_answer_that_does_not_come_in_time_is_unknown() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        nodes.members[0].answers = False
        await until_met(nodes.members[1])
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA), 0.3), Unknown)


@running
async def test_the_own_writer_is_asked_again_elsewhere_when_it_has_lost_its_claim() -> None:
    async with group(2) as nodes:
        waiting = await unanswered(nodes, Register("s", SCHEMA), through=0)
        nodes.elect(1)
        nodes.members[0].unanswered.pop()(NotPrimary())
        assert isinstance(await waiting, Done)
        assert nodes.members[1].decided == [Register("s", SCHEMA)]


@running
async def test_too_many_writes_are_refused_here_and_there() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        nodes.members[0].full = True
        for member in nodes.members:
            outcome = await submit(member, Register("s", SCHEMA))
            assert outcome == Refused(503, "Too many writes are waiting")


@running
async def test_a_write_from_a_confluent_node_is_decided_here_but_not_handed_on() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[0], Register("s", SCHEMA), forwarded=True), Done)
        outcome = await submit(nodes.members[1], Register("t", SCHEMA), forwarded=True)
        assert outcome == Refused(50004, "Leader not known.")


@running
async def test_a_write_from_a_confluent_node_waits_while_this_one_is_becoming_primary() -> None:
    async with group(1) as nodes:
        nodes.members[0].becomes("following", None)
        waiting = asyncio.ensure_future(submit(nodes.members[0], Register("s", SCHEMA), forwarded=True))
        await until_async(lambda: under_way(nodes), "it to wait")
        nodes.elect(0)
        assert isinstance(await waiting, Done)


@running
async def test_a_primary_that_ended_is_evicted_until_that_has_worked() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        await submit(nodes.members[1], Register("s", SCHEMA))
        await nodes.members[0].peers.stop(0.0)
        await until_async(lambda: nodes.members[1].evicted == [nodes.identities[0]] * 2, "the eviction")


@running
async def test_a_primary_that_nobody_has_met_is_not_evicted() -> None:
    async with group(2) as nodes:
        await nodes.members[0].peers.stop(0.0)
        nodes.elect(0)
        await until_in_vain(nodes.members[1])
        await submit(nodes.members[1], Register("s", SCHEMA), 0.3)
        assert not nodes.members[1].evicted


@running
async def test_whether_a_node_can_be_reached() -> None:
    async with group(2) as nodes:
        one, other = nodes.members[0].peers, nodes.identities[1]
        assert await one.reachable(other) == ""
        assert await one.reachable(_changed(other, peer="")) == ""
        assert "is node n1, not node n2" in await one.reachable(_changed(other, node="n2"))
        nobody = _changed(other, peer=f"127.0.0.1:{free_port()}")
        assert f"cannot be reached at its peer endpoint {nobody.peer}" in await one.reachable(nobody)


@pytest.mark.parametrize("peer", ["nonsense", "127.0.0.1:99999", "a..b:1", "127.0.0.1:"])
@running
async def test_a_node_that_advertises_what_is_no_address_cannot_be_reached(peer: str) -> None:
    async with group(2) as nodes:
        odd = _changed(nodes.identities[1], peer=peer)
        assert "is not an address" in await nodes.members[0].peers.reachable(odd)
        nodes.members[0].becomes("secondary", odd)
        await until_in_vain(nodes.members[0])
        outcome = await submit(nodes.members[0], Register("s", SCHEMA), 0.3)
        assert isinstance(outcome, Refused)
        assert outcome.code == 50003


def _changed(identity: Any, **fields: Any) -> Any:
    return dataclasses.replace(identity, **fields)


@running
async def test_nodes_with_the_same_secret_work_together() -> None:
    async with group(2, Security(secret="a secret of sixteen")) as nodes:
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        assert await nodes.members[0].peers.reachable(nodes.identities[1]) == ""


@pytest.mark.parametrize("other", [Security(), Security(secret="another secret")])
@running
async def test_nodes_without_the_same_secret_do_not(other: Security) -> None:
    async with group(2, Security(secret="a secret of sixteen"), other) as nodes:
        nodes.elect(0)
        await until_in_vain(nodes.members[1])
        outcome = await submit(nodes.members[1], Register("s", SCHEMA), 0.3)
        assert isinstance(outcome, Refused)
        assert outcome.code == 50003
        assert not nodes.members[0].decided
        assert "secret" in await nodes.members[1].peers.reachable(nodes.identities[0])


@running
async def test_nodes_with_certificates_of_one_authority_work_together(tmp_path: Path) -> None:
    authority = Authority()
    both = [security(authority, tmp_path, name) for name in ("one", "other")]
    async with group(2, *both) as nodes:
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        assert await nodes.members[0].peers.reachable(nodes.identities[1]) == ""


@running
async def test_a_node_whose_authority_is_removed_loses_its_connections(tmp_path: Path) -> None:
    authority = Authority()
    both = [security(authority, tmp_path, name) for name in ("one", "other")]
    async with group(2, *both) as nodes:
        nodes.elect(0)
        primary, secondary = nodes.members
        assert isinstance(await submit(secondary, Register("s", SCHEMA)), Done)
        await until_async(lambda: primary.peers.watchers() == 1, "the secondary to watch")
        tls = primary.peers._tls
        assert tls is not None
        watching = asyncio.ensure_future(tls.watch(0.02))
        Authority("another").write(tmp_path, "one-ca")
        await until_async(lambda: primary.peers.watchers() == 0, "its connections to end")
        authority.write(tmp_path, "one-ca")
        assert isinstance(await submit(secondary, Register("t", SCHEMA)), Done)
        watching.cancel()


@pytest.mark.parametrize("change", ["authority removed", "expired"])
def test_a_node_leaves_a_primary_whose_certificate_no_longer_counts(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.forwarding.peer_client.LIFE_EVERY_S", 0.05)
    authority, lasts = Authority(), dt.timedelta(seconds=3)

    async def leave() -> None:
        primarys = security(authority, tmp_path, "one")
        if change == "expired":
            authority.issue("CN=one", ends=lasts).write(tmp_path, "one")
        async with group(2, primarys, security(authority, tmp_path, "other")) as nodes:
            nodes.elect(0)
            secondary = nodes.members[1]
            assert isinstance(await submit(secondary, Register("s", SCHEMA)), Done)
            tls = secondary.peers._tls
            assert tls is not None
            watching = asyncio.ensure_future(tls.watch(0.02))
            if change != "expired":
                Authority("another").write(tmp_path, "other-ca")
            await until_in_vain(secondary)
            assert "certificate" in client_of(secondary).last_error
            outcome = await submit(secondary, Register("t", SCHEMA), 0.3)
            assert isinstance(outcome, Refused)
            assert outcome.code == 50003
            watching.cancel()

    asyncio.run(asyncio.wait_for(leave(), 30))


@pytest.mark.parametrize("trusted", [False, True])
@running
async def test_a_node_without_such_a_certificate_is_a_stranger(tmp_path: Path, trusted: bool) -> None:
    ours = security(Authority("known"), tmp_path, "one")
    theirs = security(Authority("unknown"), tmp_path, "other")
    if trusted:  # It trusts the others' authority, but has no certificate of it.
        theirs = dataclasses.replace(theirs, authority=ours.authority)
    async with group(2, ours, theirs) as nodes:
        nodes.elect(0)
        await until_in_vain(nodes.members[1])
        outcome = await submit(nodes.members[1], Register("s", SCHEMA), 0.3)
        assert isinstance(outcome, Refused)
        assert outcome.code == 50003
        assert not nodes.members[0].decided


@running
async def test_no_write_waits_for_others_that_take_long_to_decide() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        primary, secondary = nodes.members
        primary.long = {f"long{number}" for number in range(12)}
        long = [asyncio.ensure_future(submit(secondary, Register(each, SCHEMA), 20)) for each in primary.long]
        together = await asyncio.gather(*(submit(secondary, Register(f"s{n}", SCHEMA)) for n in range(50)))
        await until_async(lambda: len(primary.unanswered) == 12, "all to be sent by themselves")
        alone = await submit(secondary, Register("s", SCHEMA))
        assert all(isinstance(each, Done) for each in (*together, alone))
        assert not any(each.done() for each in long)
        for answer in primary.unanswered:
            answer(Refused(422, "too long"))
        assert {await each for each in long} == {Refused(422, "too long")}


@running
async def test_no_small_write_waits_for_large_ones() -> None:
    async with group(2) as nodes:
        primary, secondary = nodes.members
        primary.held = {"large"}
        nodes.elect(0)
        await until_met(secondary)
        text = SCHEMA.replace('"R"', f'"{"R" * LARGE_BYTES}"')
        large = []
        while len(large) <= UNDER_WAY_MAX:
            large.append(asyncio.ensure_future(submit(secondary, Register("large", text), 20)))
            await until_async(lambda: primary.unanswered, "the first to be sent")
            await until_async(lambda: under_way(nodes) == len(large), "it to be under way")
        assert isinstance(await submit(secondary, Register("s", SCHEMA)), Done)
        assert not any(each.done() for each in large)
        for each in large:
            each.cancel()


@running
async def test_a_large_write_too_many_is_refused_and_small_ones_are_not() -> None:
    async with group(2) as nodes:
        nodes.members[0].held = {"large"}
        nodes.elect(0)
        await until_met(nodes.members[1])
        text = "x" * (ROOM_BYTES // 2)
        first, second = (
            asyncio.ensure_future(submit(nodes.members[1], Register("large", text))) for _ in range(2)
        )
        outcome = await second
        assert isinstance(outcome, Refused)
        assert outcome.code == 503
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        assert not first.done()
        first.cancel()
