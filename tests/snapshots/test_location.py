"""Locations: files of this machine and of an object store, read and written alike."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from registry.snapshot.location import BadLocation, Location, LocationUnreachable, Missing
from registry.snapshot.manifest import MANIFEST
from registry.snapshot.verifying import verify
from tests.running import ROOT, free_port
from tests.snapshots.making import rows_in, sealed

ID = "20261121T205911Z-000000012345-3f9a1c"


@pytest.fixture(params=["path", "file:", "s3:"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "s3:":
        bucket, _, options = str(request.getfixturevalue("s3")).partition("?")
        return Location.parse(f"{bucket}/{tmp_path.name}?{options}")
    return Location.parse(tmp_path if request.param == "path" else (tmp_path / "a b").as_uri())


def test_what_is_written_is_read_and_listed(location: Location) -> None:
    assert location.folders() == []
    assert location.files(ID) == []
    with pytest.raises(Missing):
        location.read(f"{ID}/{MANIFEST}")
    location.write(f"{ID}/part-1.arrow", b"one")
    location.write(f"{ID}/{MANIFEST}", b"")
    location.write(f"{ID}/part-1.arrow", large := bytes(7 << 20))
    assert location.read(f"{ID}/part-1.arrow") == large
    assert location.read(f"{ID}/{MANIFEST}") == b""
    assert location.folders() == [ID]
    assert location.files(ID) == [MANIFEST, "part-1.arrow"]


def test_a_folder_is_deleted_and_again(location: Location) -> None:
    location.write(f"{ID}/part-1.arrow", b"one")
    location.write(f"{ID}/{MANIFEST}", b"two")
    for _ in range(2):
        location.delete(ID)
        assert location.folders() == []
    location.write(f"{ID}/part-1.arrow", b"half removed")
    location.delete(ID)
    assert location.files(ID) == []


def test_a_snapshot_is_sealed_and_verified(location: Location) -> None:
    rows = [(b"V%04d" % number, bytes([number % 256]) * 50) for number in range(2000)]
    manifest = sealed(location, rows)
    assert list(verify(location, manifest.id, lambda done, total: None)) == []
    assert rows_in(location, manifest) == rows


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", ".hidden", "a/../b", "a/b/c", ""])
def test_nothing_outside_is_reached(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="no path"):
        Location.parse(tmp_path).write(path, b"")


@pytest.mark.parametrize(
    ("uri", "advice"),
    [("ftp://host/x", "s3:"), ("file://host/x", "file:///"), ("s3://", "."), ("file:relative", "absolute")],
)
def test_what_is_no_location_is_refused_with_advice(uri: str, advice: str) -> None:
    with pytest.raises(BadLocation, match=advice):
        Location.parse(uri)


def test_what_names_the_same_for_hadoop_is_taken(s3: str) -> None:
    Location.parse(s3).write(f"{ID}/{MANIFEST}", b"1")
    assert Location.parse(s3.replace("s3://", "s3a://")).read(f"{ID}/{MANIFEST}") == b"1"


def test_why_a_place_cannot_be_reached_is_one_line() -> None:
    code = """
from registry.snapshot.location import BadLocation, Location, LocationUnreachable
try:
    Location.parse("hdfs://127.0.0.1:9/x").folders()
except (BadLocation, LocationUnreachable) as error:
    print(error)
"""
    environment = os.environ | {"JAVA_HOME": "/nowhere", "ARROW_LIBHDFS_DIR": "/nowhere"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    assert len(done.stdout.splitlines()) == 1, done.stdout


def test_a_node_names_a_location_without_what_reads_it() -> None:
    """It has others build, and need not have their libraries."""
    code = """
import sys
from registry.snapshot.location import Location
assert Location.named("hdfs://host:9000/x") == "hdfs://host:9000/x"
assert Location.named("S3A://bucket/x") == "S3A://bucket/x"
assert Location.named("file:///a%20b") == "/a b"
assert Location.named("/a") == "/a"
assert "pyarrow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    with pytest.raises(BadLocation):
        Location.named("ftp://host/x")


def test_no_password_is_shown(s3: str) -> None:
    location = Location.parse(s3)
    assert "password" in location.uri
    assert "password" not in str(location)
    assert "bucket/snapshots" in str(location)


def test_a_server_that_is_away_is_unreachable_and_not_empty() -> None:
    where = f"endpoint_override=127.0.0.1%3A{free_port()}&scheme=http&region=us-east-1"
    location = Location.parse(f"s3://u:p@bucket/x?{where}")
    with pytest.raises(LocationUnreachable):
        location.read(f"{ID}/{MANIFEST}")


def test_a_folder_that_cannot_be_written_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocationUnreachable, match="file"):
        Location.parse(tmp_path / "file").write(f"{ID}/{MANIFEST}", b"")


def test_a_killed_write_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    location = Location.parse(tmp_path)
    location.write(f"{ID}/{MANIFEST}", b"old")
    script = (
        "import os, signal, sys; from registry.snapshot.location import Location\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"Location.parse(sys.argv[1]).write('{ID}/{MANIFEST}', b'new')"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert location.read(f"{ID}/{MANIFEST}") == b"old"
    assert location.files(ID) == [MANIFEST]
    location.delete(ID)
    assert not (tmp_path / ID).exists()
