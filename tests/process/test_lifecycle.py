"""Starting, stopping, and the ends of parents and children."""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import lmdb
import pytest

from deploy.local.process import freeze
from registry.base.config.loading import Settings
from registry.host.serve import banner
from registry.host.supervisor import may_pass
from registry.store import layout
from registry.ui.console import BUNDLES, is_complete
from tests.process.raw import RawClient, get, post
from tests.support.disks import Disk
from tests.support.running import PATIENT, Registry, children_of, free_port, until

# Less than a request may take to arrive, and more than a stop takes though one hangs, for a busy machine.
STOP_S = 9.0
# For tests that a machine can spoil by freezing for seconds, but hardly every time.
TRIES = 3


def children(registry: Registry) -> dict[int, str]:
    """Return the process ids of the registry's children, and the name of each."""
    return children_of(registry.process.pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def refuses_connections(registry: Registry) -> bool:
    """Return true if all serving processes have been asked to stop."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", registry.port)) != 0


def closed_in_order(data: Path) -> bool:
    """Return true if the node has closed its store, rather than been killed."""
    current = layout.read_current(data / "store")
    assert current is not None
    store = str(data / "store" / current.name)
    with (
        lmdb.open(store, max_dbs=layout.TABLES, readonly=True, lock=False) as env,
        env.begin(env.open_db(layout.META, create=False)) as txn,
    ):
        clean: bytes = txn.get(layout.META_CLEAN)
    return clean == b"1"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    running = Registry(tmp_path / "data", "--readers", "2").wait()
    yield running
    if running.process.poll() is None:
        running.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Run one registry for tests that leave it as it is."""
    running = Registry(tmp_path_factory.mktemp("shared") / "data", "--readers", "2").wait()
    yield running
    assert running.stop() == 0, running.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_stops_all_in_time(registry: Registry, number: signal.Signals) -> None:
    pids = children(registry)
    assert sorted(pids.values()) == ["registry-node", "registry-reader", "registry-reader"]
    began = time.monotonic()
    registry.process.send_signal(number)
    assert registry.process.wait(10) == 0, registry.output
    assert time.monotonic() - began < STOP_S
    assert not any(map(alive, pids))
    assert "Traceback" not in registry.output
    assert " warning " not in registry.output


def sockets(pid: int) -> set[str]:
    """Return the sockets that a process has open."""
    opened = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    return {each for each in opened if each.startswith("socket:")}


def test_children_share_the_memory_of_their_parent_and_no_connection(shared: Registry) -> None:
    readers = [pid for pid, name in children(shared).items() if name == "registry-reader"]
    for reader in readers:
        pages = Path(f"/proc/{reader}/smaps_rollup").read_text()
        found = dict(re.findall(r"^(Rss|Pss):\s+(\d+)", pages, re.MULTILINE))
        assert int(found["Pss"]) < int(found["Rss"]) * 0.7, pages
    # Forked from a single thread, and before any store was opened.
    assert len(list(Path(f"/proc/{shared.process.pid}/task").iterdir())) == 1
    assert ".mdb" not in Path(f"/proc/{shared.process.pid}/maps").read_text()
    known = [sockets(pid) for pid in (shared.process.pid, *readers)]
    assert all(first.isdisjoint(second) for first, second in itertools.combinations(known, 2))


def test_a_signal_to_the_whole_group_stops_in_order(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "data", "--readers", "2").wait()
    for pid in (*children(registry), registry.process.pid):
        os.kill(pid, signal.SIGTERM)
    assert registry.process.wait(10) == 0, registry.output
    assert "restarting it" not in registry.output


def test_a_hangup_of_the_whole_group_ends_no_process(registry: Registry) -> None:
    """A service manager asks for a reload with it, and a terminal that closes sends it to all processes."""
    pids = children(registry)
    for pid in (*pids, registry.process.pid):
        os.kill(pid, signal.SIGHUP)
    assert registry.all_serve()
    assert children(registry) == pids
    assert registry.stop() == 0, registry.output
    assert "restarting it" not in registry.output


def test_what_is_under_way_is_finished(registry: Registry) -> None:
    request = post("/subjects/late/versions", b'{"schema": "\\"long\\""}', "Expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    with RawClient(registry.port) as client, RawClient(registry.port) as idle:
        idle.send(get("/schemas/types")).reply()
        # Only a request of which a reader has read something is in progress.
        assert client.send(head + b"\r\n\r\n").reply().status == 100
        client.send(body[:-1])
        registry.process.send_signal(signal.SIGTERM)
        assert idle.rest() == b""
        # The two may have reached different readers.
        until(lambda: refuses_connections(registry), 30, "the port to be closed")
        reply = client.send(body[-1:]).reply()
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert registry.process.wait(10) == 0
    again = Registry(registry.data, "--readers", "1").wait()
    assert httpx.get(f"{again.url}/subjects", timeout=PATIENT).json() == ["late"]
    assert again.stop() == 0


def test_a_request_that_hangs_does_not_hold_the_stop(registry: Registry) -> None:
    with RawClient(registry.port) as client:
        client.send(b"POST /subjects/x/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        began = time.monotonic()
        registry.process.send_signal(signal.SIGTERM)
        assert registry.process.wait(10) == 0
        assert time.monotonic() - began < STOP_S


def test_a_node_alone_closes_its_store_though_a_request_hangs(tmp_path: Path) -> None:
    assert any(_closes_its_store(tmp_path / f"data{number}") for number in range(TRIES))


def _closes_its_store(data: Path) -> bool:
    """Return true if it was done in time: the parent kills processes that take too long."""
    registry = Registry(data, "--readers", "1").wait()
    head = b"POST /subjects/x/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    with RawClient(registry.port) as client:
        assert client.send(head + b"Expect: 100-continue\r\n\r\n").reply().status == 100
        began = time.monotonic()
        registry.process.send_signal(signal.SIGTERM)
        assert registry.process.wait(10) == 0
        assert time.monotonic() - began < STOP_S
    assert "Traceback" not in registry.output
    return closed_in_order(data)


def test_a_second_signal_kills(tmp_path: Path) -> None:
    assert any(_killed_by_a_second_signal(tmp_path / f"data{number}") for number in range(TRIES))


def _killed_by_a_second_signal(data: Path) -> bool:
    """Return true if the second signal found processes that had yet to stop, and ended them."""
    registry = Registry(data, "--readers", "2").wait()
    head = b"POST /subjects/x/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    try:
        with RawClient(registry.port) as client:
            assert client.send(head + b"Expect: 100-continue\r\n\r\n").reply().status == 100
            registry.process.send_signal(signal.SIGTERM)
            until(lambda: refuses_connections(registry), 30, "the port to be closed")
            registry.process.send_signal(signal.SIGTERM)
            code = registry.process.wait(10)
    finally:
        registry.kill()
    return code == 1 and not closed_in_order(data)


def test_children_end_with_a_killed_parent(registry: Registry) -> None:
    pids = children(registry)
    registry.kill()
    until(lambda: not any(map(alive, pids)), 30, "the children to end")
    again = Registry(registry.data, "--readers", "1", port=registry.port).wait()
    assert again.stop() == 0


def register(registry: Registry) -> httpx.Response:
    """Register a first schema, under the subject "a"."""
    url = f"{registry.url}/subjects/a/versions"
    return httpx.post(url, json={"schema": '"string"'}, timeout=PATIENT).raise_for_status()


@pytest.mark.logs_errors(r"ended \(SIGKILL\)")
def test_dead_children_are_started_again(registry: Registry) -> None:
    before = children(registry)
    for pid in before:
        os.kill(pid, signal.SIGKILL)

    def all_are_new() -> bool:
        found = children(registry)
        return len(found) == 3 and not before.keys() & found.keys()

    until(all_are_new, 60, "new children")
    until(registry.ready, 60, "the registry to be ready")
    assert register(registry).json()["id"] == 1

    def restarts_are_counted() -> bool:
        text = httpx.get(f"{registry.url}/metrics", timeout=PATIENT).text
        wanted = (
            'registrar_restarts_total{process="node"} 1.0',
            'registrar_restarts_total{process="reader"} 2.0',
        )
        return all(each in text for each in wanted)

    until(restarts_are_counted, 60, "the restarts to be counted")


def test_readers_serve_what_they_have_while_the_node_is_away(registry: Registry) -> None:
    register(registry)
    (node,) = (pid for pid, module in children(registry).items() if module == "registry-node")
    freeze(node)
    try:
        assert httpx.get(f"{registry.url}/schemas/ids/1", timeout=PATIENT).status_code == 200
        assert httpx.get(f"{registry.url}/subjects", timeout=PATIENT).json() == ["a"]
        assert httpx.get(f"{registry.url}/subjects/none/versions", timeout=PATIENT).status_code == 404
    finally:
        os.kill(node, signal.SIGCONT)
    assert registry.stop() == 0


@pytest.mark.logs_errors(r"ended \(SIGKILL\)", "No space left on device")
def test_readers_serve_while_a_node_cannot_start_again_for_lack_of_room(tmp_path: Path) -> None:
    with Disk(tmp_path / "data") as disk:
        registry = Registry(tmp_path / "data").wait()
        try:
            register(registry)
            (node,) = (pid for pid, module in children(registry).items() if module == "registry-node")
            disk.fill()
            os.kill(node, signal.SIGKILL)
            until(lambda: registry.output.count("the node cannot start: ") > 1, 60, "two attempts")
            assert httpx.get(f"{registry.url}/subjects", timeout=PATIENT).json() == ["a"]
            disk.free()
            until(registry.ready, 60, "the registry to be ready again")
            assert register(registry).json()["id"] == 1
            assert registry.stop() == 0
        finally:
            registry.kill()


@pytest.mark.parametrize(
    ("refusal", "passes"),
    [
        ("the store in /data/store cannot be opened: [Errno 28] No space left on device", True),
        ("/data/log cannot be used: Read-only file system", True),
        ("cannot listen: Too many open files", True),
        ("The log in /data/log is damaged: the record at offset 3 is unreadable", False),
        ("cannot listen on 127.0.0.1:8081: Address already in use", False),
        ("the node refused to start", False),
    ],
)
def test_only_what_may_pass_lets_a_child_that_has_served_try_again(refusal: str, passes: bool) -> None:
    assert may_pass(refusal) is passes


def test_a_taken_port_refuses_the_start(tmp_path: Path, shared: Registry) -> None:
    second = Registry(tmp_path / "other", "--readers", "2", port=shared.port)
    assert second.process.wait(20) == 1
    assert f"cannot listen on 127.0.0.1:{shared.port}" in second.output
    assert "Traceback" not in second.output


def test_a_folder_in_use_refuses_the_start(shared: Registry) -> None:
    second = Registry(shared.data, "--readers", "1")
    assert second.process.wait(20) == 1
    assert "is open for writing by process" in second.output
    assert "Traceback" not in second.output
    assert shared.ready()


def test_a_folder_that_is_none_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = Registry(tmp_path / "data", "--data", str(tmp_path / "file" / "data"))
    assert refused.process.wait(20) == 1
    assert "cannot use the folder" in refused.output
    assert "Traceback" not in refused.output


def test_the_start_says_where_and_how_to_begin(shared: Registry) -> None:
    until(lambda: "Register a first schema" in shared.output, 30, "the banner")
    assert shared.url in shared.output
    assert f"{shared.url}/subjects/first-value/versions" in shared.output


@pytest.mark.parametrize(
    ("options", "curl", "url"),
    [
        ({"listen": "0.0.0.0:8081"}, "curl", "http://127.0.0.1:8081"),
        ({"users": "u"}, "curl -u USER", "http://127.0.0.1:8081"),
        ({"jwt_jwks": "j"}, "curl -H 'Authorization: Bearer TOKEN'", "http://127.0.0.1:8081"),
        (
            {"listeners": "https://0.0.0.0:8443", "users": "u"},
            "curl --cacert CA.pem -u USER",
            "https://127.0.0.1:8443",
        ),
        (
            {"listeners": "http://127.0.0.1:8081,https://127.0.0.1:8443", "tls_client_auth": "required"},
            "curl --cacert CA.pem --cert CLIENT.pem --key CLIENT.key",
            "https://127.0.0.1:8443",
        ),
    ],
)
def test_the_examples_at_the_start_have_what_a_client_needs(
    options: dict[str, str], curl: str, url: str
) -> None:
    said = banner(Settings(**options), console=True)  # type: ignore[arg-type]
    assert f"\n  {curl} -X POST " in said
    assert f" {url}/subjects/first-value/versions\n" in said
    assert said.endswith(f"\n  {curl} {url}/subjects/first-value/versions/latest")
    assert f"\n  console   {url}/ui\n" in said
    assert "/ui" not in banner(Settings(**options), console=False)  # type: ignore[arg-type]


def test_a_console_that_was_not_bundled_is_not_announced(shared: Registry, tmp_path: Path) -> None:
    until(lambda: "Register a first schema" in shared.output, 30, "the banner")
    assert (f"\n  console   {shared.url}/ui\n" in shared.output) == is_complete()
    for each in BUNDLES:
        assert not is_complete(tmp_path)
        (tmp_path / each).write_text("")
    assert is_complete(tmp_path)


def test_an_address_of_another_machine_refuses_the_start(tmp_path: Path) -> None:
    refused = Registry(tmp_path / "data", "--listen", f"192.0.2.1:{free_port()}")
    assert refused.process.wait(20) == 1
    assert "cannot listen on 192.0.2.1" in refused.output


@pytest.mark.logs_errors(r"ended \(exit code 9\)")
def test_a_child_that_never_serves_is_not_started_for_ever(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    ending = "import os; os.register_at_fork(after_in_child=lambda: os._exit(9))"
    (tmp_path / "broken" / "sitecustomize.py").write_text(ending)
    environment = {"PYTHONPATH": str(tmp_path / "broken")}
    refused = Registry(tmp_path / "data", "--readers", "1", environment=environment)
    assert refused.process.wait(30) == 1
    assert re.search(r"the (node|reader) ended 5 times before it could serve \(exit code 9\)", refused.output)
    assert "Traceback" not in refused.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("part", ["log", "store/store-1"])
def test_a_file_that_may_not_be_read_refuses_the_start_and_is_no_damage(tmp_path: Path, part: str) -> None:
    assert Registry(tmp_path / "data", "--readers", "1").wait().stop() == 0
    (tmp_path / "data" / part / "data.mdb").chmod(0)
    refused = Registry(tmp_path / "data", "--readers", "1")
    assert refused.process.wait(20) == 1
    assert "Permission denied" in refused.output
    assert "damaged" not in refused.output
    assert "Traceback" not in refused.output


def test_what_a_killed_parent_left_is_removed_by_the_next_start(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    environment = {"TMPDIR": str(shared)}

    def folders() -> set[str]:
        return {each.name for each in shared.glob("registrar-*")}

    first = Registry(tmp_path / "first", "--readers", "1", environment=environment).wait()
    (left,) = folders()
    first.kill()
    assert folders() == {left}
    (shared / "registrar-of-another").mkdir()  # Without a lock: its owner is unknown.
    second = Registry(tmp_path / "second", "--readers", "1", environment=environment).wait()
    third = Registry(tmp_path / "third", "--readers", "1", environment=environment).wait()
    assert left not in folders()
    assert len(folders()) == 3, "a folder that is used stays"
    assert (second.stop(), third.stop()) == (0, 0)
    assert folders() == {"registrar-of-another"}


def test_what_a_node_keeps_is_its_users_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    registry = Registry(data, "--readers", "1").wait()
    try:
        httpx.post(f"{registry.url}/admin/snapshots", timeout=PATIENT).raise_for_status()
        location = data / "snapshots"
        until(lambda: list(location.glob("*/manifest.json")), 60.0, "a snapshot")
    finally:
        registry.kill()
    kept = [data, *data.rglob("*")]
    assert {location, data / "node-id"} <= set(kept)
    others = [str(each) for each in kept if each.stat().st_mode & 0o077]
    assert not others, others
