"""Behavior of the election by ZooKeeper beyond the contract."""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl_credential

from deploy.local.process import free_port
from deploy.local.proxy import Proxy
from deploy.local.zookeeper import ZooKeeper
from election.contract import Event, Identity, NoPrimary, PrimaryIs, Won
from election.zookeeper.candidacy import ANNOUNCE_AFTER_S, ZooKeeperElection
from election.zookeeper.connection import Connection, Tls, ZooKeeperError, renew_acl
from election.zookeeper.tree import COUNTER, MEMBERS, PRIMARY, Tree, decode, encode, stale_sessions, verdict
from tests.contract.election.conftest import Authority
from tests.contract.election.nodes import identity, until, until_agreed
from tests.support.certificates import Authority as CertificateAuthority
from tests.support.certificates import replace as replace_file

CONFLUENT = b'{"host":"cp1","port":8081,"master_eligibility":true,"scheme":"http","version":1}'
CP1 = Identity("http", "cp1", 8081, eligible=True)
A, B = identity("sr1"), identity("sr2")


@pytest.fixture
def ensemble(zookeeper: ZooKeeper, tmp_path) -> Authority:
    return Authority("zookeeper", zookeeper.address, tmp_path)


@asynccontextmanager
async def connected(authority: Authority, auth: str = "") -> AsyncIterator[Connection]:
    """A session of another client."""
    connection = Connection(authority.address, f"/{authority.group}/schema_registry", 6.0, auth, lambda: None)
    connection.start()
    await until(lambda: connection.is_connected, "a connection")
    try:
        yield connection
    finally:
        await connection.close()


def test_that_servers_are_waited_for_is_reported_before_they_count_as_unreachable() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            election = ZooKeeperElection(address, "/silent", A, session_timeout_s=1.0)
            try:
                first = await anext(election.events())
                assert first == NoPrimary(f"waiting for ZooKeeper at {address}")
            finally:
                await election.close()

    assert ANNOUNCE_AFTER_S < 1
    asyncio.run(scenario())


def test_the_primarys_node_holds_confluents_bytes(ensemble: Authority) -> None:
    async def scenario() -> None:
        async with ensemble, connected(ensemble) as other:
            node = ensemble.node(identity("cp1"))
            await until_agreed([node])
            found = await other.get(PRIMARY)
            assert found is not None
            assert found.data == CONFLUENT
            assert found.owner

    asyncio.run(scenario())


def test_ours_follow_a_primary_of_confluents_and_take_over_from_it(ensemble: Authority) -> None:
    async def scenario() -> None:
        async with ensemble:
            async with connected(ensemble) as confluent:
                await confluent.create(PRIMARY, CONFLUENT, ephemeral=True)
                ours = ensemble.node(A)
                await until(lambda: ours.last == PrimaryIs(CP1), "ours to follow")
            await until(lambda: ours.won, "ours to take over")

    asyncio.run(scenario())


def test_a_primarys_node_that_cannot_be_read_is_said(ensemble: Authority) -> None:
    async def scenario() -> None:
        async with ensemble, connected(ensemble) as other:
            await other.create(PRIMARY, b"garbage", ephemeral=True)
            ours = ensemble.node(A)
            await until(lambda: "cannot be read" in ours.refused, "the reason")
            await other.delete(PRIMARY)
            await until(lambda: ours.won, "ours to be elected")

    asyncio.run(scenario())


def test_a_broken_connection_is_a_lost_office_at_once(ensemble: Authority) -> None:
    async def scenario(proxy: Proxy) -> None:
        async with ensemble:
            node = ensemble.node(A, through=proxy, session_timeout_s=10.0)
            await until_agreed([node])
            proxy.refuse()
            await until(node.losses, "it to give up")
            assert not await node.election.confirm()
            proxy.heal()
            await until(lambda: node.won, "its session, which lived on, to be its office again")

    with Proxy(ensemble.address) as proxy:
        asyncio.run(scenario(proxy))


def test_the_counter_goes_back_only_from_where_it_was_expected(ensemble: Authority) -> None:
    async def scenario() -> None:
        async with ensemble, connected(ensemble) as other:
            node = ensemble.node(A)
            await until_agreed([node])
            election = node.election
            assert not await election.lower(5, 4), "there is no counter yet"
            done = await asyncio.gather(election.advance(40), election.lower(40, 20), election.advance(30))
            assert done == [0, True, 20], "in the order in which they were asked for"
            assert not await election.lower(40, 10)
            assert await other_value(other) == b"30"

    asyncio.run(scenario())


async def other_value(connection: Connection) -> bytes:
    counter = await connection.get("/schema_id_counter")
    assert counter is not None
    return counter.data


def test_the_counter_never_goes_back(ensemble: Authority) -> None:
    async def scenario() -> None:
        async with ensemble, connected(ensemble) as other:
            nodes = [ensemble.node(own) for own in (A, B)]
            await until_agreed(nodes)
            one, two = (node.election for node in nodes)
            assert await one.advance(20) == 0
            assert await two.advance(10) == 20
            found = sorted(await asyncio.gather(*(node.election.advance(40) for node in nodes * 3)))
            assert found == [20, 40, 40, 40, 40, 40]
            counter = await other.get("/schema_id_counter")
            assert counter is not None
            assert (counter.data, counter.owner) == (b"40", 0)
            await other.put("/schema_id_counter", b"many", counter.version)
            with pytest.raises(ZooKeeperError, match="does not hold a number: b'many'"):
                await one.advance(60)

    asyncio.run(scenario())


def test_with_a_password_others_may_not_interfere(ensemble: Authority) -> None:
    async def scenario() -> None:
        async with ensemble, connected(ensemble) as stranger:
            node = ensemble.node(A, auth="registrar:secret")
            await until_agreed([node])
            with pytest.raises(ZooKeeperError, match="NoAuth"):
                await stranger.delete(PRIMARY)
            intruder = ensemble.node(B)
            await until(lambda: "NoAuth" in intruder.refused, "the reason")

    asyncio.run(scenario())


def test_the_password_changes_while_the_nodes_elect(ensemble: Authority) -> None:
    """Each node gets both passwords, then each only the new one; then the old one opens nothing."""
    old, new = "registrar:old", "registrar:new"

    async def scenario() -> None:
        async with ensemble:
            owns = [A, B, identity("sr3")]
            nodes = [ensemble.node(own, auth=old) for own in owns]
            primary = await until_agreed(nodes)
            await primary.election.advance(100)
            for auth in (f"{new}\n{old}", new):
                for number, own in enumerate(owns):
                    await nodes[number].close()
                    nodes[number] = ensemble.node(own, auth=auth)
                    primary = await until_agreed(nodes)
                    assert await primary.election.advance(100) == 100
            async with connected(ensemble, auth=old) as former:
                for path in ("", MEMBERS, COUNTER):
                    with pytest.raises(ZooKeeperError, match="refused the login"):
                        await former.create(f"{path}/stranger", b"")
                    with pytest.raises(ZooKeeperError, match="refused the login"):
                        await former.get(path)
            assert not any(node.refused for node in nodes)

    asyncio.run(scenario())


def test_access_of_others_is_kept() -> None:
    digest = make_digest_acl_credential
    other, former = (make_acl("digest", digest(*each), all=True) for each in (("bob", "x"), ("alice", "old")))
    own = make_acl("digest", digest("alice", "new"), all=True)
    assert renew_acl([other, former], [("alice", "new")]) == [other, own]
    assert renew_acl([own, other], [("alice", "new")]) == [own, other]
    both = [("alice", "new"), ("alice", "old")]
    assert renew_acl([former], both) == [former, own]
    assert renew_acl(OPEN_ACL_UNSAFE, both) == OPEN_ACL_UNSAFE


def tree(session: int, members: dict[int, Identity], primary: int | None = None) -> Tree:
    return Tree(session, members, primary, members.get(primary) if primary else None)


def test_a_vacant_office_may_be_taken_by_the_eligible() -> None:
    assert verdict(tree(1, {1: A}), A) is None
    assert isinstance(verdict(tree(1, {1: A}), identity("sr1", eligible=False)), NoPrimary)


def test_the_session_says_whose_the_office_is() -> None:
    assert verdict(tree(1, {1: A, 2: B}, 1), A) == Won()
    assert verdict(tree(2, {1: A, 2: B}, 1), B) == PrimaryIs(A)
    assert verdict(Tree(1, {1: A}, 9, CP1), A) == PrimaryIs(CP1)
    assert isinstance(verdict(Tree(1, {1: A}, 9, None), A), NoPrimary)


def test_only_the_same_name_at_the_same_address_is_a_former_life() -> None:
    members = {1: A, 2: A, 3: identity("sr1", node="other"), 4: identity("sr9", node=A.node)}
    assert stale_sessions(tree(1, members), A) == [2]
    nameless = identity("sr1", node="")
    assert stale_sessions(tree(1, {1: nameless, 2: nameless}), nameless) == []


def test_what_is_written_is_read() -> None:
    assert decode(encode(A)) == A
    assert encode(CP1, plain=True) == CONFLUENT
    assert decode(b"\xff") is None


NODES = st.lists(
    st.builds(identity, st.sampled_from(["sr1", "sr2", "localhost"]), port=st.integers(1, 2)), max_size=5
)


@given(NODES, st.integers(0, 5))
def test_at_most_one_has_the_office(nodes: list[Identity], holder: int) -> None:
    members = dict(enumerate(nodes, 1))
    primary = holder if holder in members else None
    heard: dict[int, Event | None] = {
        session: verdict(tree(session, members, primary), own) for session, own in members.items()
    }
    assert [session for session, event in heard.items() if event == Won()] in ([], [primary])


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Tls]]:
    """The address of a server that uses TLS and demands a client certificate, and the files of a client."""
    folder, authority = tmp_path_factory.mktemp("encrypted"), CertificateAuthority(plain=True)
    ca = authority.write(folder, "ca")
    issued = authority.issue()
    both = folder / "server.pem"
    both.write_bytes(issued.key_pem() + issued.pem)
    port = free_port()
    settings = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(both),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(ca),
        "ssl.trustStore.type": "PEM",
    }
    files = authority.issue("CN=node").write(folder, "client")
    with ZooKeeper(folder / "server", settings=settings):
        yield f"127.0.0.1:{port}", Tls(str(ca), *map(str, files))


def test_sessions_use_tls_with_a_client_certificate(encrypted: tuple[str, Tls], tmp_path: Path) -> None:
    async def scenario() -> None:
        address, tls = encrypted
        async with Authority("zookeeper", address, tmp_path) as ensemble:
            await until_agreed([ensemble.node(A, tls=tls), ensemble.node(B, tls=tls)])

    asyncio.run(scenario())


# kazoo leaves the socket of a failed handshake to the garbage collector.
leaves_sockets = pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")


@leaves_sockets
def test_renewed_files_are_used_for_the_next_connection(encrypted: tuple[str, Tls], tmp_path: Path) -> None:
    """Open ones go on; a certificate that the servers refuse is said, and replaced without a restart."""
    address, given = encrypted
    tls = Tls(*(str(shutil.copy(file, tmp_path)) for file in given))
    ca, certificate, key = map(Path, tls)
    trusted = {each: each.read_bytes() for each in (ca, certificate, key)}
    other = CertificateAuthority("Other CA")
    foreign = other.issue()

    async def scenario() -> None:
        with Proxy(address) as proxy:
            async with Authority("zookeeper", address, tmp_path) as ensemble:
                node = ensemble.node(A, tls=tls, through=proxy, session_timeout_s=6.0)
                await until_agreed([node])
                replace_file(ca, other.pem + trusted[ca])
                replace_file(certificate, foreign.pem)
                replace_file(key, foreign.key_pem())
                assert node.won, "the open connection goes on"
                proxy.refuse()
                await until(lambda: not node.won, "the connection to be lost")
                proxy.heal()
                refused = "it refuses the certificate of this client; see zookeeper_tls_certificate"
                await until(lambda: node.refused.endswith(refused), "the certificate to be refused")
                for path in (certificate, key):
                    replace_file(path, trusted[path])
                await until(lambda: node.won, "the node to be elected again")

    asyncio.run(scenario())


@leaves_sockets
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda tls, other: None, "it uses TLS; see zookeeper_tls"),
        (lambda tls, other: tls._replace(ca=other), "; see zookeeper_tls_ca"),
        (lambda tls, other: Tls(tls.ca), "see zookeeper_tls_certificate, if it demands one"),
    ],
    ids=["no TLS", "another authority", "no client certificate"],
)
def test_a_server_that_uses_tls_names_the_setting(
    encrypted: tuple[str, Tls], tmp_path: Path, given: Callable[[Tls, str], Tls | None], said: str
) -> None:
    async def scenario() -> None:
        address, tls = encrypted
        other = str(CertificateAuthority("Other CA").write(tmp_path, "other"))
        async with Authority("zookeeper", address, tmp_path) as ensemble:
            node = ensemble.node(A, tls=given(tls, other), session_timeout_s=2.0)
            await until(lambda: node.refused.endswith(said), "the reason")

    asyncio.run(scenario())
    gc.collect()


@leaves_sockets
def test_tls_with_a_server_without_it_names_the_setting(ensemble: Authority) -> None:
    async def scenario() -> None:
        async with ensemble:
            node = ensemble.node(A, tls=Tls(), session_timeout_s=2.0)
            await until(lambda: node.refused.endswith("it uses no TLS; see zookeeper_tls"), "the reason")

    asyncio.run(scenario())
    gc.collect()


def test_znodes_of_another_user_name_the_setting(ensemble: Authority) -> None:
    async def scenario() -> None:
        async with ensemble:
            owner = ensemble.node(A, auth="alice:secret")
            await until(lambda: owner.won, "the owner to be primary")
            node = ensemble.node(B, auth="bob:secret")
            await until(lambda: node.refused.endswith("see zookeeper_auth"), "the reason")

    asyncio.run(scenario())
