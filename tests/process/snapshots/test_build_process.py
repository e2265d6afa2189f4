"""The process in which a node has a snapshot built, as seen by the node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from registry.base.config.settings import Settings
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.node.snapshots.build_process import Build
from snapshots.catalogue.catalogue import Catalogue, builder_name, has_ended
from snapshots.catalogue.open import open_catalogue
from snapshots.format.manifest import new_id
from tests.process.snapshots.asking import held_up
from tests.support.running import until
from tests.support.sample_catalogues import NOW, entry
from tests.support.sample_snapshots import version


def begun(tmp_path: Path) -> tuple[Build, Catalogue]:
    settings = Settings(data=tmp_path)
    catalogue, build = open_catalogue(settings), Build(settings)
    catalogue.put(entry())
    assert build.may_begin(entry())
    build.begin(entry())
    assert build.runs
    assert not build.may_begin(entry())
    return build, catalogue


def test_one_that_ends_before_it_claims_anything_counts_as_a_try(tmp_path: Path) -> None:
    build, catalogue = begun(tmp_path)
    assert build._process is not None
    os.killpg(build._process.pid, signal.SIGKILL)
    until(lambda: build.look(catalogue, NOW + 5), 10, "its end to be seen")
    (failed,) = catalogue.entries().values()
    assert (failed.state, failed.attempts) == ("failed", 1)
    assert failed.reason == "its builder ended (SIGKILL)"
    assert not build.runs
    assert not build.may_begin(failed)


def test_one_that_is_ended_leaves_its_request_to_others(tmp_path: Path) -> None:
    build, catalogue = begun(tmp_path)
    assert build._process is not None
    builder = build._builder
    assert not has_ended(builder)
    catalogue.put(entry(state="building", builder=builder, attempts=1))
    build.end(catalogue, NOW + 5)
    assert catalogue.entries() == {entry().id: entry(updated_ms=NOW + 5, builder=builder)}
    assert has_ended(builder)


def test_an_overdue_builder_that_cannot_end_itself_is_killed_and_its_claim_ends(
    tmp_path: Path,
) -> None:
    with closing(EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)) as log:
        log.append([version("s", 1, 1)])
        identity = log.identity
    settings = Settings(data=tmp_path, snapshots_builder="local", snapshots_build_timeout_s=600.0)
    request = entry(new_id(1, NOW, 1), log=identity, offset=1, uri=settings.snapshots_location)
    catalogue, build = open_catalogue(settings), Build(settings)
    catalogue.put(request)
    with held_up(tmp_path):
        build.begin(request)
        assert build._process is not None
        pid, builder = build._process.pid, build._builder
        until(lambda: catalogue.entries()[request.id].state == "building", 30, "it to take the request")
        os.kill(pid, signal.SIGSTOP)
        assert not build.look(catalogue, now_ms())
        assert build._deadline > time.monotonic() + 600, "it has time to end itself"
        build._deadline = time.monotonic()
        assert build.look(catalogue, now_ms())
    (failed,) = catalogue.entries().values()
    assert (failed.state, failed.attempts) == ("failed", 1)
    assert failed.reason == "its builder did not end in time (snapshots_build_timeout_s)"
    assert failed.is_free(now_ms()), "any builder may try again"
    assert has_ended(builder)
    assert not build.runs


def test_what_fails_is_said_by_who_builds(tmp_path: Path) -> None:
    """A builder without a log."""
    build, catalogue = begun(tmp_path)
    until(lambda: build.look(catalogue, NOW + 5), 30, "its end to be seen")
    (failed,) = catalogue.entries().values()
    assert (failed.state, failed.attempts) == ("failed", 1)
    assert "has ended" not in failed.reason


def test_builders_of_this_host_that_have_ended() -> None:
    ending = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ended = builder_name(ending.pid)
    assert not has_ended(ended)
    ending.kill()
    until(lambda: has_ended(ended), 10, "it to be seen, even before it was waited for")
    ending.communicate()
    assert has_ended(ended)
    own = builder_name(os.getpid())
    assert not has_ended(own)
    place, _, process = own.rpartition("/")
    started, _, pid = process.partition(":")
    assert has_ended(f"{place}/{int(started) - 1}:{pid}"), "the id was given to another process since"
    host, _, kernel = place.partition("/")
    for elsewhere in (
        f"another-{host}/{kernel}/1:1", f"{host}/00000000.{kernel.partition('.')[2]}/1:1", f"{place}1/1:1",
        f"{host}:1", "", "nobody", f"{place}/:1",
    ):  # fmt: skip
        assert not has_ended(elsewhere), "there its host may have any name, and it the id 1"
