"""The contract of every catalogue; both implementations pass the same tests."""

from __future__ import annotations

import logging
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from msgspec import structs

from registry.base.config.settings import Settings
from registry.domain.log_format.records import Entry as LogEntry
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from snapshots.building.heartbeat import BuildHeartbeat
from snapshots.catalogue.catalogue import (
    SILENT_MS,
    BuildProgress,
    Catalogue,
    CatalogueError,
    Entry,
    take_request,
)
from snapshots.catalogue.kafka import entry_key
from snapshots.catalogue.open import catalogue_topic, open_catalogue
from snapshots.format.location import Location
from tests.support.kafka_topics import admin, make_topic
from tests.support.running import ROOT, until
from tests.support.sample_catalogues import LOG, NOW, entry
from tests.support.sample_snapshots import sealed


@pytest.fixture(params=["embedded", "kafka"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    if request.param == "embedded":
        return Settings(data=tmp_path)
    return on_kafka(request, tmp_path)


def on_kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    address = request.getfixturevalue("kafka").address
    return Settings(data=tmp_path, kafka=address, topic=f"schemas-{secrets.token_hex(4)}")


@pytest.fixture
def catalogue(settings: Settings) -> Iterator[Catalogue]:
    opened = open_catalogue(settings)
    yield opened
    opened.close()


@pytest.fixture
def another(settings: Settings) -> Iterator[Catalogue]:
    """Return the same catalogue, as another process sees it."""
    opened = open_catalogue(settings)
    yield opened
    opened.close()


def test_what_is_put_is_there_for_all_until_it_is_forgotten(catalogue: Catalogue, another: Catalogue) -> None:
    first, second = entry(), entry("20260921T131321Z-000000000009-00aa12", offset=9)
    assert another.entries() == {}
    assert catalogue.put(first) == first
    assert catalogue.put(second) == second
    assert another.entries() == catalogue.entries() == {first.id: first, second.id: second}
    another.forget(first.id)
    another.forget("20260921T131321Z-000000000009-999999")
    assert catalogue.entries() == {second.id: second}


def test_it_goes_on_after_a_rest(catalogue: Catalogue, another: Catalogue) -> None:
    catalogue.put(entry())
    catalogue.rest()
    another.put(entry().in_state("building", NOW + 1, builder="b"))
    assert catalogue.entries()[entry().id].builder == "b"
    catalogue.close()


def test_a_copy_of_the_data_means_the_snapshots_beside_it(tmp_path: Path) -> None:
    """A copy must not delete the original's snapshots."""
    within = structs.replace(entry(), uri=str(tmp_path / "data" / "snapshots"))
    outside = structs.replace(
        entry("20260921T131321Z-000000000009-00aa12"), uri=str(tmp_path / "data2" / "x")
    )
    with closing(open_catalogue(Settings(data=tmp_path / "data"))) as opened:
        assert [opened.put(each) for each in (within, outside)] == [within, outside]
        assert opened.entries() == {each.id: each for each in (within, outside)}
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with closing(open_catalogue(Settings(data=tmp_path / "copy"))) as copied:
        found = copied.entries()
    assert found[within.id].uri == str(tmp_path / "copy" / "snapshots")
    assert found[outside.id] == outside


def test_nothing_is_made_by_looking(settings: Settings, catalogue: Catalogue) -> None:
    assert catalogue.entries() == {}
    assert catalogue.marked_offset(LOG) == -1
    catalogue.forget(entry().id)
    assert list(settings.data.iterdir()) == []
    if settings.kafka:
        assert catalogue_topic(settings) not in admin(settings.kafka).list_topics(timeout=10).topics


def test_the_newest_marker_is_kept_for_each_log(catalogue: Catalogue, another: Catalogue) -> None:
    catalogue.mark(LOG, 7)
    assert (another.marked_offset(LOG), another.marked_offset("another log"), another.entries()) == (
        7,
        -1,
        {},
    )
    catalogue.mark(LOG, 9)
    assert another.marked_offset(LOG) == 9


def test_of_two_that_claim_one_request_one_gets_it(catalogue: Catalogue, another: Catalogue) -> None:
    catalogue.put(entry())
    got: list[Entry | None] = []
    claims = [
        Thread(target=lambda each=each, name=name: got.append(take_request(each, entry().id, name, NOW + 5)))
        for each, name in ((catalogue, "one"), (another, "two"))
    ]
    for each in claims:
        each.start()
    for each in claims:
        each.join()
    (winner,) = filter(None, got)
    assert (winner.state, winner.attempts) == ("building", 1)
    assert catalogue.entries() == another.entries() == {winner.id: winner}
    assert take_request(another, winner.id, "three", NOW + 6) is None


def test_progress_is_that_of_one_heartbeat(catalogue: Catalogue, another: Catalogue) -> None:
    progress = BuildProgress("reading the log", 450, 1000)
    catalogue.put(built := entry().in_state("building", NOW, builder="b", progress=progress))
    assert another.entries() == {built.id: built}
    assert progress.percent == 45
    for state in ("building", "failed", "ready"):
        catalogue.put(built.in_state(state, NOW + 1))
        assert another.entries()[built.id].progress is None
    assert BuildProgress("of an empty log", 0, 0).percent == 0


def test_a_catalogue_that_is_made_anew_deletes_nothing_that_is_being_built(
    settings: Settings, catalogue: Catalogue, another: Catalogue, tmp_path: Path
) -> None:
    location = Location.parse(tmp_path / "snapshots")
    manifest = sealed(location, [(b"V", b"v")])
    building = entry(manifest.id, state="building", builder="b", uri=location.uri)
    other = entry("20260921T131321Z-000000000009-00aa12", offset=9)
    news = BuildHeartbeat.first(catalogue, building)
    assert another.entries() == {building.id: building}
    another.close()
    if settings.kafka:
        delete(settings.kafka, catalogue_topic(settings))
    else:
        shutil.rmtree(settings.data / "catalogue")
    news.beat()
    until(lambda: _put(another, other) and other.id in another.entries(), 30, "a catalogue made anew")

    def heard_of() -> bool:
        news.beat()
        return manifest.id in another.entries()

    until(heard_of, 30, "the build to be heard of again")
    assert set(another.entries()) == {manifest.id, other.id}
    assert news.ready(manifest).state == "ready"
    assert another.entries()[manifest.id].state == "ready"
    building = entry(other.id, state="building", builder="b", offset=9)
    news = BuildHeartbeat(catalogue, building, known=True)
    another.forget(other.id)
    news.beat()
    assert set(another.entries()) == {manifest.id}, "what was deleted stays away"


def delete(servers: str, topic: str) -> None:
    client = admin(servers)
    for done in client.delete_topics([topic]).values():
        done.result()
    until(lambda: topic not in client.list_topics(timeout=10).topics, 30, "the topic to go")


def _put(catalogue: Catalogue, new: Entry) -> bool:
    try:
        catalogue.put(new)
    except CatalogueError:  # Brokers do not forget a topic all at once.
        return False
    return True


def test_a_late_claim_does_not_undo_what_stands(catalogue: Catalogue, another: Catalogue) -> None:
    """Its record may be the last one of its key, which is all that compaction keeps."""
    ready = entry(state="ready", builder="one", updated_ms=NOW + 9)
    catalogue.put(ready)
    assert another.put(entry(state="building", builder="two", updated_ms=NOW + 10)) == ready
    assert catalogue.entries() == another.entries() == {ready.id: ready}


def test_a_catalogue_of_another_process(settings: Settings, catalogue: Catalogue) -> None:
    catalogue.put(entry())
    where = f"kafka={settings.kafka!r}, topic={settings.topic!r}, data=Path({str(settings.data)!r})"
    script = f"""
from pathlib import Path
from registry.base.config.settings import Settings
from snapshots.catalogue.catalogue import take_request
from snapshots.catalogue.open import open_catalogue
catalogue = open_catalogue(Settings({where}))
print(take_request(catalogue, {entry().id!r}, "child", {NOW + 1}))
catalogue.close()
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert catalogue.entries()[entry().id].builder == "child"


def test_what_is_no_entry_is_passed_over(
    request: pytest.FixtureRequest, settings: Settings, catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue.put(entry())
    if settings.kafka:
        log = KafkaLog(
            Security(), settings.kafka, catalogue_topic(settings),
            transactional_id="", append_timeout_s=10.0, fencing=False,
        )  # fmt: skip
        log.claim()
        garbage = [b"\xff", b"{}", b"[]", b'{"snapshot":[]}', entry_key("x"), b'{"registrar":"marked"}']
        log.append([LogEntry(key, b"garbage") for key in garbage])
        log.append([LogEntry(entry_key("x"), entry().dumps())])
        log.close()
    else:
        folder = settings.data / "catalogue"
        (folder / "x.json").write_bytes(b"\xff")
        (folder / "y.json").write_bytes(entry().dumps())
        (folder / "marked").write_bytes(b"[")
    with caplog.at_level(logging.WARNING):
        assert catalogue.entries() == {entry().id: entry()}
    assert catalogue.marked_offset(LOG) == -1
    assert len([each for each in caplog.records if "of the catalogue" in each.getMessage()]) == (
        7 if settings.kafka else 2
    )


def test_a_topic_that_is_there_is_used(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    settings = on_kafka(request, tmp_path)
    make_topic(settings.kafka, name=catalogue_topic(settings))
    catalogue = open_catalogue(settings)
    catalogue.put(entry())
    assert open_catalogue(settings).entries() == {entry().id: entry()}
    catalogue.close()


def test_a_topic_whose_records_kafka_deletes_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    settings = on_kafka(request, tmp_path)
    make_topic(settings.kafka, {"cleanup.policy": "delete"}, name=catalogue_topic(settings))
    with pytest.raises(CatalogueError, match=r"cleanup\.policy"):
        open_catalogue(settings).entries()


def test_one_that_cannot_be_reached_says_so(tmp_path: Path) -> None:
    (tmp_path / "catalogue").write_text("")
    with pytest.raises(CatalogueError, match="Not a directory"):
        open_catalogue(Settings(data=tmp_path)).entries()


LATE = NOW + SILENT_MS + 1


def test_a_silent_builder_loses_its_build(catalogue: Catalogue) -> None:
    catalogue.put(entry(state="building", builder="dead", attempts=1))
    assert take_request(catalogue, entry().id, "next", NOW + SILENT_MS) is None
    taken = take_request(catalogue, entry().id, "next", LATE)
    assert taken is not None
    assert taken.attempts == 2
    stands = catalogue.put(entry(state="building", builder="dead", updated_ms=LATE + 1))
    assert stands == taken


def test_a_builder_from_before_a_clock_was_set_back_is_silent(catalogue: Catalogue) -> None:
    """Otherwise a dead build would appear alive for as long as the clock was set back."""
    building = entry(state="building", builder="first", updated_ms=NOW + 3_600_000, attempts=1)
    catalogue.put(building)
    winner_entry = take_request(catalogue, building.id, "second", NOW)
    assert winner_entry is not None
    assert catalogue.entries() == {winner_entry.id: winner_entry}
    assert not structs.replace(building, updated_ms=NOW + 300_000).is_silent(NOW), "clocks differ"
