"""The process in which a node has a snapshot built, as seen by the node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from registry.base.config.settings import Settings
from registry.node.snapshots.build_process import Build
from snapshots.catalogue.builders import builder_name, has_ended
from snapshots.catalogue.catalogue import Catalogue
from snapshots.catalogue.open import open_catalogue
from tests.support.running import until
from tests.support.sample_catalogues import NOW, entry


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
