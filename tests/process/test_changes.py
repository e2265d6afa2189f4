"""The change feed of a running registry: kills, slow clients, and rights that change."""

from __future__ import annotations

import os
import signal
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.process.security.test_reload import SECRET
from tests.process.test_crashes import victims
from tests.support.certificates import replace
from tests.support.listening import Listener, Listeners
from tests.support.running import PATIENT, Registry, until

LISTENERS = 300
TIMEOUT_S = 60.0
SOME = "?subjectPrefix=a-&kind=version_registered"
# A config of a subject with a name so long makes a large event.
NAME_BYTES = 30_000
RULES = """
[[allow]]
principal = "wanda"
role = "developer"
subjects = "*"

[[allow]]
principal = "alice"
role = "reader"
subjects = "{}"
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("feed")
    running = Registry(folder / "data", "--readers", "2", "--body-timeout-s", "1").wait()
    yield running
    assert running.stop() == 0, running.output
    assert "Traceback" not in running.output


def register(client: httpx.Client, url: str, *subjects: str) -> None:
    for subject in subjects:

        def registered(subject: str = subject) -> bool:
            try:
                answer = client.post(f"{url}/subjects/{subject}/versions", json={"schema": '"int"'})
            except httpx.TransportError:
                return False
            assert answer.status_code in (200, 500, 503), answer.text
            return answer.status_code == 200

        until(registered, TIMEOUT_S, f"{subject} to be registered")


def pages(client: httpx.Client, url: str, query: str = "") -> list[int]:
    """Return the offsets of all events, page by page."""
    offsets: list[int] = []
    after = -1
    while True:
        page = client.get(f"{url}/changes?after={after}&limit=50{query}").raise_for_status().json()
        offsets += [each["offset"] for each in page["events"]]
        if page["next"] == after:
            return offsets
        after = page["next"]


@pytest.mark.logs_errors(r"ended \(SIGKILL\)")
def test_listeners_that_resume_miss_and_repeat_nothing_when_processes_are_killed(registry: Registry) -> None:
    everything = [Listener([registry.port]) for _ in range(LISTENERS)]
    some = [Listener([registry.port], SOME) for _ in range(20)]
    with Listeners(*everything, *some) as listeners, httpx.Client(timeout=PATIENT) as client:
        until(lambda: all(each.status == 200 for each in listeners.all), TIMEOUT_S, "all to listen")
        for number, killed in enumerate(("reader", "node", "both")):
            register(client, registry.url, *(f"{'ab'[n % 2]}-{number}-{n}" for n in range(10)))
            for pid in victims(registry, killed):
                os.kill(pid, signal.SIGKILL)
            register(client, registry.url, *(f"{'ab'[n % 2]}-{number}-{n}" for n in range(10, 20)))
        wanted = dict.fromkeys(everything, pages(client, registry.url))
        wanted |= dict.fromkeys(some, pages(client, registry.url, SOME.replace("?", "&")))
        until(lambda: all(each.offsets[-1:] == wanted[each][-1:] for each in wanted), TIMEOUT_S, "all events")
    assert len(wanted[some[0]]) == 30
    assert all(each.offsets == wanted[each] for each in wanted)
    assert any(each.breaks for each in everything)


def test_a_client_that_does_not_read_is_dropped_and_delays_no_other(registry: Registry) -> None:
    end = httpx.get(f"{registry.url}/changes").json()["next"]
    quick, slow = Listener([registry.port], after=end), Listener([registry.port], after=end, reads=False)
    with Listeners(quick, slow) as listeners, httpx.Client(timeout=PATIENT) as client:
        until(lambda: slow.status == quick.status == 200, TIMEOUT_S, "both to listen")

        def dropped() -> bool:
            for level in ("FULL", "NONE"):
                config = {"compatibility": level}
                client.put(f"{registry.url}/config/{'n' * NAME_BYTES}", json=config).raise_for_status()
            return "registrar_feed_dropped_total 1.0" in metrics(client, registry)

        until(dropped, TIMEOUT_S, "the slow client to be dropped")
        written = pages_after(client, registry.url, end)
        until(lambda: quick.offsets[-1:] == written[-1:], TIMEOUT_S, "the quick client to have everything")
        assert quick.offsets == written
        assert quick.breaks == 0
        # It reads from now on, and has missed nothing.
        listeners.call(slow)
        until(lambda: slow.offsets[-1:] == written[-1:], TIMEOUT_S, "the slow client to have everything")
        assert slow.offsets == written


def pages_after(client: httpx.Client, url: str, after: int) -> list[int]:
    return [each for each in pages(client, url) if each > after]


def metrics(client: httpx.Client, registry: Registry) -> str:
    return client.get(f"{registry.url}/metrics").text


def test_a_stream_ends_when_the_registry_stops(tmp_path: Path) -> None:
    running = Registry(tmp_path / "data", "--readers", "1").wait()
    with socket.create_connection(("127.0.0.1", running.port), timeout=TIMEOUT_S) as client:
        client.sendall(b"GET /changes HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        received = b""
        while b"\n\n" not in received:
            received += client.recv(65536)
        assert running.stop() == 0
        while more := client.recv(65536):
            received += more
    assert received.endswith(b"\r\n0\r\n\r\n"), received
    assert "in time" not in running.output, running.output


def test_streams_follow_users_and_rules_that_change(tmp_path: Path) -> None:
    users, rules = tmp_path / "users", tmp_path / "rules"

    def write_files(names: str, prefix: str) -> None:
        replace(users, "".join(f"{name}:{SECRET}\n" for name in names.split()).encode())
        replace(rules, RULES.format(prefix).encode())

    write_files("wanda alice", "a*")
    flags = ("--readers", "1", "--users", str(users), "--rules", str(rules))
    registry = Registry(tmp_path / "data", *flags)
    registry.headers = {"Authorization": f"Basic {b64encode(b'alice:secret').decode()}"}
    registry.wait()
    line = f"Authorization: {registry.headers['Authorization']}\r\n"
    alice, nobody = Listener([registry.port], headers=line), Listener([registry.port])
    with (
        Listeners(alice, nobody),
        httpx.Client(timeout=PATIENT, auth=("wanda", "secret")) as wanda,
        httpx.Client(timeout=PATIENT, headers=registry.headers) as client,
    ):
        until(lambda: alice.status == 200 and nobody.status == 401, TIMEOUT_S, "the answers")
        register(wanda, registry.url, "a1", "b1", "a2")
        until(lambda: len(alice.offsets) == 2, TIMEOUT_S, "the events that alice may see")
        write_files("wanda alice", "b*")
        subjects = f"{registry.url}/subjects"
        until(lambda: client.get(subjects).json() == ["b1"], TIMEOUT_S, "the new rules to be in force")
        register(wanda, registry.url, "a3", "b2", "a4", "b3")
        until(lambda: len(alice.offsets) == 4, TIMEOUT_S, "the events that alice may see now")
        assert alice.breaks == 0
        subject_of = {
            each["offset"]: each.get("subject")
            for each in wanda.get(f"{registry.url}/changes?after=-1").json()["events"]
        }
        assert [subject_of[each] for each in alice.offsets] == ["a1", "a2", "b2", "b3"]
        write_files("wanda", "b*")
        until(lambda: alice.breaks and alice.status == 401, TIMEOUT_S, "the stream to end")
        assert client.get(f"{registry.url}/changes").status_code == 401
    assert registry.stop() == 0, registry.output
