"""Reads by id: what each takes, counted, and that answers at hand are those of the rows as they are."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from bench.process_costs import Processes, hooked_environment
from registry.reader.fast_path.reads import RecentSchemas
from registry.security.authentication.passwords import hash_password
from tests.support.running import PATIENT, ROOT, Registry

SCHEMAS = 40
# Where requests pass. Elsewhere the processes call functions for themselves, many times a second.
PATH = (
    "http1/",
    "reader/",
    "store/",
    "api/",
    "security/",
    "base/observe/metrics.py Observed",
    "base/observe/metrics.py Req",
)
Count = Callable[[list[int]], float]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reads")


@pytest.fixture(scope="module")
def profiled(folder: Path) -> Iterator[Registry]:
    registry = Registry(folder / "data", environment=hooked_environment(folder, ROOT)).wait()
    yield registry
    assert registry.stop() == 0, registry.output


@pytest.fixture(scope="module")
def client(profiled: Registry) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=profiled.url, timeout=PATIENT) as client:
        for number in range(1, SCHEMAS + 1):
            schema = json.dumps({"type": "enum", "name": f"E{number}", "symbols": ["A"]})
            client.post(f"/subjects/s{number}/versions", json={"schema": schema}).raise_for_status()
        yield client


@pytest.fixture
def calls(profiled: Registry, client: httpx.Client, folder: Path) -> Count:
    """Return how many functions are called for one read, of the ids given."""
    processes = Processes(profiled.process.pid)

    def count(ids: list[int]) -> float:
        def read() -> None:
            for number in ids:
                client.get(f"/schemas/ids/{number}").raise_for_status()

        calls = processes.calls(folder, read).by_name
        return sum(count for name, count in calls.items() if name.startswith(PATH)) / len(ids)

    return count


def test_a_read_by_id_calls_few_functions(client: httpx.Client, calls: Count) -> None:
    client.get("/schemas/ids/1")  # From here on the connection's headers are known.
    first = calls(list(range(1, SCHEMAS + 1)))
    for _ in range(RecentSchemas.EVERY):
        client.get("/schemas/ids/1")
    again = calls([1] * 5 * SCHEMAS)
    print(first, again)
    assert first < 34
    assert again < 22


def test_a_subject_of_an_unfiltered_list_takes_few_calls(
    client: httpx.Client, profiled: Registry, folder: Path
) -> None:
    lists = 20

    def calls(limit: int) -> float:
        def read() -> None:
            for _ in range(lists):
                client.get("/subjects", params={"limit": limit}).raise_for_status()

        read()  # From here on the place of the page's end is known.
        counted = Processes(profiled.process.pid).calls(folder, read).by_name
        return sum(count for name, count in counted.items() if name.startswith("domain/")) / lists

    assert (calls(SCHEMAS) - calls(SCHEMAS // 2)) / (SCHEMAS // 2) < 6.5


def test_counting_who_asks_takes_no_call_of_a_read(
    client: httpx.Client, profiled: Registry, folder: Path
) -> None:
    def read() -> None:
        for _ in range(5 * SCHEMAS):
            client.get("/schemas/ids/1").raise_for_status()

    read()  # From here on the target is known, at least until the counts are handed over.
    calls = Processes(profiled.process.pid).calls(folder, read).by_name
    assert sum(count for name, count in calls.items() if name.startswith("reader/asks.py")) < SCHEMAS


def test_a_read_calls_the_same_functions_whether_or_not_who_asks_is_counted(
    client: httpx.Client, profiled: Registry, folder: Path
) -> None:
    hooked = hooked_environment(folder, ROOT)
    silent = Registry(folder / "silent", "--asks-keep-days", "0", environment=hooked).wait()
    try:
        with httpx.Client(base_url=silent.url, timeout=PATIENT) as other:
            schema = {"schema": '{"type":"enum","name":"E1","symbols":["A"]}'}
            other.post("/subjects/s1/versions", json=schema).raise_for_status()
            uncounted, counted = (
                calls_of_a_read(other, silent, folder),
                calls_of_a_read(client, profiled, folder),
            )
    finally:
        assert silent.stop() == 0, silent.output
    assert counted == uncounted
    assert sum(counted.values()) > 10


def test_credentials_that_are_known_add_one_call_to_a_read(
    client: httpx.Client, profiled: Registry, folder: Path
) -> None:
    users = folder / "users"
    users.write_text(f"alice:{hash_password('secret')}\n")
    hooked = hooked_environment(folder, ROOT)
    guarded = Registry(folder / "guarded", "--users", str(users), environment=hooked)
    guarded.headers["Authorization"] = "Basic " + base64.b64encode(b"alice:secret").decode()
    guarded.wait()
    try:
        with httpx.Client(base_url=guarded.url, auth=("alice", "secret"), timeout=PATIENT) as other:
            schema = {"schema": '{"type":"enum","name":"E1","symbols":["A"]}'}
            other.post("/subjects/s1/versions", json=schema).raise_for_status()
            with_credentials = calls_of_a_read(other, guarded, folder)
    finally:
        assert guarded.stop() == 0, guarded.output
    without = calls_of_a_read(client, profiled, folder)
    more = {name: count for name, count in with_credentials.items() if count != without.get(name)}
    assert more == {"security/authentication/gate.py AuthenticationGate.holds RequestHeaders.preferences": 1}
    assert without.keys() <= with_credentials.keys()


def calls_of_a_read(client: httpx.Client, registry: Registry, folder: Path) -> dict[str, int]:
    """Return how often each function is called for a read, by file, function and caller."""
    reads = 10 * SCHEMAS

    def read() -> None:
        for _ in range(reads):
            client.get("/schemas/ids/1").raise_for_status()

    read()
    calls = Processes(registry.process.pid).calls(folder, read).by_name
    # What is called now and then, such as a hand-over of counts, is not called for a read.
    each = {name: round(count / reads) for name, count in calls.items() if name.startswith(PATH)}
    return {name: count for name, count in each.items() if count}


def test_who_has_read_is_kept_by_the_node_over_its_end(folder: Path) -> None:
    """The counts of the last seconds too, which a reader hands over when it stops."""
    schema = {"schema": '"string"'}
    for number in (1, 2):
        registry = Registry(folder / "asked").wait()
        try:
            with httpx.Client(base_url=registry.url, timeout=PATIENT) as client:
                client.headers["user-agent"] = "shop/1.2"
                answer = client.get("/usage/subjects/s/askers")
                if number == 1:
                    client.post("/subjects/s/versions", json=schema).raise_for_status()
                    for path in ("/schemas/ids/1", "/schemas/ids/1", "/subjects/s/versions/1/schema"):
                        client.get(path).raise_for_status()
        finally:
            assert registry.stop() == 0, registry.output
    [asker] = answer.json()["askers"]
    assert (asker["principal"], asker["address"], asker["agent"]) == ("", "127.0.0.1", "shop/1.2")
    assert [(each["version"], each["requests"]) for each in asker["versions"]] == [(None, 1), (1, 3)]
    assert answer.json()["other"] == 0


def test_an_answer_at_hand_ends_with_the_next_write(client: httpx.Client) -> None:
    def read() -> httpx.Response:
        return client.get("/schemas/ids/2")

    before = [read() for _ in range(3 * RecentSchemas.EVERY)][-1]
    client.post("/subjects/more/versions", json={"schema": '"int"'}).raise_for_status()
    after = read()
    assert after.content == before.content
    assert int(after.headers["x-registry-offset"]) > int(before.headers["x-registry-offset"])
    for permanent in ("false", "true"):
        client.delete(f"/subjects/s2?permanent={permanent}").raise_for_status()
    assert read().status_code == 404


def test_each_request_has_its_own_id_and_the_media_type_that_it_accepts(client: httpx.Client) -> None:
    kinds = ("application/json", "application/vnd.schemaregistry.v1+json") * 2 * RecentSchemas.EVERY
    answers = [client.get("/schemas/ids/3", headers={"Accept": kind}) for kind in kinds]
    assert [each.headers["content-type"] for each in answers] == list(kinds)
    assert len({each.headers["x-request-id"] for each in answers}) == len(kinds)
    assert {each.content for each in answers} == {answers[0].content}
