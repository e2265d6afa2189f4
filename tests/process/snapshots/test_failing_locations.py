"""Builds whose location fails half-way: nothing is announced, and nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from registry.base.config.settings import Settings
from registry.log.embedded.log import EmbeddedLog
from snapshots.building import builder
from snapshots.building.local import VERIFYING
from snapshots.building.task import Progress, silent
from snapshots.catalogue.open import open_catalogue
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.format.verify import verify
from tests.process.snapshots.test_local import beginning_parts, requested
from tests.process.snapshots.test_starting import credentials_are_looked_at
from tests.support.disks import Disk
from tests.support.sample_snapshots import MAP, version

# PySpark leaves closing the sockets of its results to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
ENGINES = pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.long)])


def half_way(fail: Callable[[], object]) -> Progress:
    """Return a progress that calls ``fail`` once, when the parts were written and are read again."""
    failed = False

    def progress(step: str, done: int, total: int) -> None:
        nonlocal failed
        if step == VERIFYING and not failed:
            failed = True
            fail()

    return progress


def check(
    known: Settings, engine: str, fail: Callable[[], object], mend: Callable[[], object], why: str
) -> None:
    with closing(EmbeddedLog(known.data / "log", map_bytes=64 << 20)) as log:
        log.append([version(name, 1, number + 1) for number, name in enumerate(beginning_parts(3))])
    location = Location.parse(known.snapshots_location)
    with closing(open_catalogue(known)) as catalogue:
        good = builder.build_now(known, catalogue, "local", silent, offset=1)
        catalogue.put(entry := requested(known, 3))
        failed = builder.build_request(known, catalogue, entry, engine, half_way(fail))
        mend()
        assert failed.state == "failed"
        assert why in failed.reason
        assert [each.id for each in stored.manifests(location)] == [good.id]
        ready = builder.build_request(known, catalogue, failed, engine, silent)
    assert (ready.state, ready.engine) == ("ready", engine)
    for each in (good.id, ready.id):
        assert not list(verify(location, each, lambda done, total: None))


@ENGINES
def test_a_store_of_objects_that_refuses_the_builder_half_way(
    s3: str, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "password")
    uri = s3.replace("user:password@bucket/snapshots", f"bucket/{tmp_path.name}")
    known = Settings(data=tmp_path, snapshots=uri, store_map_bytes=MAP, snapshots_spark_master="local[1]")
    try:
        check(
            known, engine, lambda: credentials_are_looked_at(s3, "0"),
            lambda: credentials_are_looked_at(s3, "inf"), "AWS Error",
        )  # fmt: skip
    finally:
        credentials_are_looked_at(s3, "inf")


@ENGINES
def test_a_disk_that_is_full_half_way(tmp_path: Path, engine: str) -> None:
    with Disk(tmp_path / "snapshots") as disk:
        known = Settings(data=tmp_path, store_map_bytes=MAP, snapshots_spark_master="local[1]")
        check(known, engine, disk.fill, disk.free, "No space left on device")
