"""Nodes whose log is unavailable, lost or forgetful: what they serve and report, and how they recover."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.broker import COMPACTS_SOON, Broker
from registry.domain.log_format.records import config_key
from registry.domain.model import Subject
from registry.log.contract import Log
from tests.process.node.stations import on_kafka
from tests.support.kafka_topics import delete_topic, make_topic, set_of_topic
from tests.support.listening import Listener, Listeners
from tests.support.running import ROOT, Registry, until

pytestmark = pytest.mark.logs_errors(
    "Kafka does not answer",
    "cannot query Kafka for the end",
    r"the topic \S+ (was deleted|does not exist)",
    "but the store was built from",
    "was seeded with the state of",
    r"the node ended \(exit code 1\)",
)

WAIT_S = 60.0
STALE = '110 - "Response is Stale"'
FORGETFUL = {
    "delete.retention.ms": "8000",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.0",
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("own"), settings=COMPACTS_SOON) as broker:
        yield broker


def start(broker: Broker, data: Path, topic: str, *flags: str, port: int | None = None) -> Registry:
    where = ("--kafka", broker.address, "--topic", topic, "--group", topic, "--readers", "1")
    # On a busy machine, confirming reads may take longer than the default allows.
    times = ("--request-timeout-s", "5", "--confirm-timeout-s", "10")
    return Registry(data, *where, *times, *flags, port=port)


def schema_of(subject: str) -> str:
    return f'{{"type":"record","name":"{subject}","fields":[]}}'


def register(registry: Registry, subject: str) -> httpx.Response:
    body = {"schema": schema_of(subject)}
    return httpx.post(f"{registry.url}/subjects/{subject}/versions", json=body, timeout=60)


def get(registry: Registry, path: str) -> httpx.Response:
    return httpx.get(registry.url + path, timeout=60)


def status(registry: Registry) -> dict[str, Any]:
    found: dict[str, Any] = get(registry, "/node").json()
    return found


def reasons(registry: Registry) -> str:
    return " ".join(status(registry)["reasons"])


def told_by_id(schema_id: int, guid: str) -> list[str]:
    """Return paths that lead from an id or a guid to a schema, and all answer at the time of the call."""
    by_id = f"/schemas/ids/{schema_id}"
    more = ("", "?subject=s", "?format=resolved", "/schema", "/subjects", "/versions")
    return [*(by_id + each for each in more), f"/schemas/guids/{guid}", f"/schemas/guids/{guid}/ids"]


def refused_by(registry: Registry, paths: list[str]) -> list[int]:
    """Return the statuses of all paths, each of which must be an error of the documented shape."""
    found = [get(registry, path) for path in paths]
    for each in found:
        assert list(each.json()) == ["error_code", "message"], each.text
        assert int(each.headers["retry-after"]) > 0
    return [each.status_code for each in found]


def keys(log: Log) -> list[bytes]:
    """Return all records that are in the log now."""
    found: list[bytes] = []
    offset, end = 0, log.query_end(30)
    while offset < end:
        assert log.wait(offset, 30)
        fetched = log.read(offset, 10_000, 1 << 30)
        found += [record.key or b"" for record in fetched.records]
        offset = fetched.next
    return found


def test_a_store_is_served_while_the_brokers_are_away(own: Broker, tmp_path: Path) -> None:
    topic = make_topic(own.address)
    registry = start(own, tmp_path / "data", topic).wait()
    schema_id = register(registry, "s").json()["id"]
    assert registry.stop() == 0, registry.output
    own.stop()
    # While the brokers are away, every read that cannot be confirmed takes this long.
    registry = start(own, tmp_path / "data", topic, "--confirm-timeout-s", "2", port=registry.port)
    try:
        until(lambda: _answers(registry, f"/schemas/ids/{schema_id}"), WAIT_S, "the store to be served")
        assert get(registry, "/health/ready").status_code == 503
        until(lambda: "Kafka" in reasons(registry), WAIT_S, "the reason to be told")
        assert get(registry, "/subjects/missing/versions").status_code == 503, (
            "never a 404 that nobody checked"
        )
        refused = register(registry, "t")
        # The node replies when the time is up; if it is a little late, its reader gets no reply.
        told = {(500, 50004), (500, 50003), (500, 50002)}
        assert (refused.status_code, refused.json()["error_code"]) in told
        own.start().wait()
        until(registry.ready, WAIT_S, "the node to be ready again")
        assert register(registry, "t").status_code == 200
        assert get(registry, "/subjects/missing/versions").status_code == 404
    finally:
        if not own.running:
            own.start().wait()
        registry.stop()


def _answers(registry: Registry, path: str) -> bool:
    try:
        return get(registry, path).status_code == 200
    except httpx.TransportError:
        return False


def test_a_topic_that_was_deleted_is_reported_and_not_taken_for_another(own: Broker, tmp_path: Path) -> None:
    topic = make_topic(own.address)
    registry = start(own, tmp_path / "data", topic).wait()
    try:
        schema_id = register(registry, "s").json()["id"]
        guid = get(registry, f"/schemas/ids/{schema_id}").json()["guid"]
        applied = status(registry)["applied"]
        delete_topic(own.address, topic)
        until(lambda: "does not exist" in reasons(registry), WAIT_S, "the loss to be noticed")
        # No other log says what this id means.
        until(lambda: _answers(registry, f"/schemas/ids/{schema_id}"), WAIT_S, "the store to be served")
        assert get(registry, f"/schemas/ids/{schema_id}").headers["warning"] == STALE
        make_topic(own.address, name=topic)
        until(lambda: "Bring the former" in reasons(registry), WAIT_S, "the other topic")
        assert status(registry)["role"] == "following", "it says at once that it does not write"
        paths = told_by_id(schema_id, guid)
        assert refused_by(registry, paths) == [503] * len(paths)
        config = get(registry, "/config")
        assert (config.status_code, config.headers["warning"]) == (200, STALE)
        looked_up = httpx.post(f"{registry.url}/subjects/s", json={"schema": schema_of("s")}, timeout=60)
        assert looked_up.status_code == 503, looked_up.text
        missing = get(registry, "/subjects/missing/versions")
        assert missing.status_code == 503, "the other topic knows nothing of what is missing"
        refused = register(registry, "t")
        assert refused.status_code == 503, refused.text
        assert "reseed" in refused.json()["message"]
        assert status(registry)["applied"] == applied
        assert registry.stop() == 0
        registry = start(own, tmp_path / "data", topic, port=registry.port)
        until(lambda: _answers(registry, "/config"), WAIT_S, "the store to be served")
        # The store holds what the node has found, so this does not wait for it to be found again.
        assert get(registry, f"/schemas/ids/{schema_id}").status_code == 503
        until(lambda: "Bring the former" in reasons(registry), WAIT_S, "the other topic")
        assert refused_by(registry, paths) == [503] * len(paths)
        assert register(registry, "t").status_code == 503
        assert status(registry)["applied"] == applied
    finally:
        registry.stop()


# In make test, tests/process/node/test_log_match.py compares stores with other embedded logs.
@pytest.mark.parametrize("kind", ["another cluster", pytest.param("embedded", marks=pytest.mark.long)])
def test_a_data_folder_of_another_log_is_not_served_until_its_own_is_back(
    own: Broker, kafka: Broker, tmp_path: Path, kind: str
) -> None:
    topic, flags = make_topic(own.address), ("--readers", "1", "--reads", "local")

    def at_home(port: int | None = None) -> Registry:
        if kind == "embedded":
            return Registry(tmp_path / "data", "--readers", "1", port=port)
        return start(own, tmp_path / "data", topic, *flags, port=port)

    registry = at_home().wait()
    schema_id = register(registry, "s").json()["id"]
    guid = get(registry, f"/schemas/ids/{schema_id}").json()["guid"]
    paths = [*told_by_id(schema_id, guid), "/subjects", "/subjects/s/versions/latest", "/config"]
    assert [get(registry, path).status_code for path in paths] == [200] * len(paths)
    assert registry.stop() == 0, registry.output

    make_topic(kafka.address, name=topic)
    registry = start(kafka, tmp_path / "data", topic, *flags, port=registry.port)
    try:
        asked = iter(lambda: _answers(registry, f"/schemas/ids/{schema_id}"), None)

        def noticed() -> bool:
            assert not next(asked), "it was answered before it was known whose it is"
            return _answers(registry, "/node") and "was built from" in reasons(registry)

        until(noticed, WAIT_S, "the other log to be noticed")
        assert refused_by(registry, paths) == [503] * len(paths)
        assert register(registry, "s").status_code == 503
    finally:
        registry.stop()
    registry = at_home(registry.port).wait()
    try:
        for found in (get(registry, path) for path in paths):
            assert (found.status_code, found.headers.get("warning")) == (200, None)
    finally:
        registry.stop()


# In make test, tests/process/test_reseed.py seeds a topic from a store.
@pytest.mark.long
def test_a_running_node_takes_a_log_that_was_seeded_from_its_own(own: Broker, tmp_path: Path) -> None:
    topic = make_topic(own.address)
    first = start(own, tmp_path / "first", topic).wait()
    other = start(own, tmp_path / "other", topic).wait()
    listens = ExitStack()
    try:
        ids = [register(node, name).json()["id"] for node, name in ((first, "a"), (other, "b"))]
        listens.enter_context(Listeners(listener := Listener([other.port])))
        until(lambda: listener.offsets, WAIT_S, "the events")
        delete_topic(own.address, topic)
        until(lambda: not status(other)["ready"], WAIT_S, "the loss to be noticed")
        assert first.stop() == 0, first.output
        where = ("--kafka", own.address, "--topic", topic, "--group", topic, "--data", str(first.data))
        reseed = [sys.executable, "-m", "registry", "log", "reseed", *where]
        said = subprocess.run(reseed, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert said.returncode == 0, said.stdout + said.stderr
        until(lambda: "seeded" in other.output, WAIT_S, "the seeded log to be noticed")
        until(lambda: _answers(other, "/health/ready"), WAIT_S, "the store to be rebuilt")
        for name, schema_id in zip("ab", ids, strict=True):
            assert get(other, f"/subjects/{name}/versions/latest").json()["id"] == schema_id
        assert register(other, "c").json()["id"] > max(ids)
        until(lambda: listener.breaks, WAIT_S, "the stream, whose offsets mean nothing any more, to end")
    finally:
        listens.close()
        first.stop()
        other.stop()


def test_a_store_that_was_away_while_deletions_were_forgotten_is_built_anew(
    own: Broker, tmp_path: Path
) -> None:
    topic = make_topic(own.address, FORGETFUL)
    patient = ("--end-age-margin-s", "0")
    away = start(own, tmp_path / "away", topic, *patient).wait()
    for subject in ("kept", "gone"):
        assert register(away, subject).status_code == 200
    assert away.stop() == 0, away.output
    here = start(own, tmp_path / "here", topic, *patient).wait()
    try:
        for flags in ("", "?permanent=true"):
            assert httpx.delete(f"{here.url}/subjects/gone{flags}", timeout=60).status_code == 200
        numbers = iter(range(1_000_000))
        with closing(on_kafka(own.address, topic)) as log:

            def until_forgotten() -> bool:
                # Only closed segments are compacted.
                register(here, f"filler{next(numbers)}")
                return not any(b"SCHEMA" in key and b'"gone"' in key for key in keys(log))

            until(until_forgotten, 120, "the log to forget the deletion", every_s=0.5)
        away = start(own, tmp_path / "away", topic, *patient, port=away.port).wait()
        assert "must be rebuilt" in away.output or "cannot be used" in away.output, away.output
        assert get(away, "/subjects?deleted=true").json() == get(here, "/subjects?deleted=true").json()
        assert "gone" not in get(away, "/subjects?deleted=true").json()
        until(lambda: status(away)["applied"] == status(here)["applied"], WAIT_S, "both to be at the end")
        assert status(away)["digest"] == status(here)["digest"]
    finally:
        here.stop()
        away.stop()


def test_what_the_topic_has_compacted_away_is_known_by_the_history_and_not_guessed(
    own: Broker, tmp_path: Path
) -> None:
    # Nothing is compacted before what was written has been read, however long that takes.
    kept = {each: FORGETFUL[each] for each in ("segment.ms", "min.cleanable.dirty.ratio")}
    topic = make_topic(own.address, kept)
    registry = start(own, tmp_path / "data", topic).wait()
    try:
        unchanged = _offset(register(registry, "unchanged"))
        first, second, third = (
            _offset(_set_level(registry, "s", level)) for level in ("FULL", "NONE", "FULL")
        )
        assert get(registry, f"/config/s?atOffset={first}").json() == {"compatibilityLevel": "FULL"}

        for each in ("min.compaction.lag.ms", "max.compaction.lag.ms"):
            set_of_topic(own.address, topic, each, FORGETFUL[each])

        with closing(on_kafka(own.address, topic)) as log:

            def compacted() -> bool:
                _set_level(registry, "other", "NONE")  # only segments are compacted that others have followed
                return keys(log).count(config_key(Subject(".", "s"))) == 1

            until(compacted, WAIT_S, "the topic to be compacted")
        gone = get(registry, f"/config/s?atOffset={second}").json()
        assert gone["error_code"] == 41081
        assert gone["message"].endswith(f"Earliest available offset: {third}")
        assert get(registry, f"/config/s?atOffset={third}").json() == {"compatibilityLevel": "FULL"}
        assert get(registry, f"/subjects/unchanged/versions?atOffset={unchanged}").json() == [1]
        told = get(registry, "/subjects/s/history").json()
        assert [each["offset"] for each in told["events"]] == [third, second, first]
        assert told["completeFrom"] == 0
    finally:
        registry.stop()
    late = start(own, tmp_path / "late", topic).wait()
    try:
        until(lambda: not get(late, "/subjects/s/history").json()["filling"], WAIT_S, "the history")
        told = get(late, "/subjects/s/history").json()
        assert [each["offset"] for each in told["events"]] == [third]
        assert told["completeFrom"] > second
        assert get(late, f"/config/s?atOffset={second}").status_code == 410
        # What has not changed since is known, however little the log tells.
        newest = told["completeFrom"] - 1
        assert get(late, f"/subjects/unchanged/versions?atOffset={newest}").json() == [1]
    finally:
        late.stop()


def _set_level(registry: Registry, subject: str, level: str) -> httpx.Response:
    return httpx.put(f"{registry.url}/config/{subject}", json={"compatibility": level}, timeout=60)


def _offset(written: httpx.Response) -> int:
    """Return the offset of a write's last record."""
    assert written.status_code == 200, written.text
    return int(written.headers["x-registry-offset"]) - 1
