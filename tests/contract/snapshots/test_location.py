"""Locations: files of this machine and of an object store, read and written in the same way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import ArrowNotImplementedError, fs

from registry.base.config.addresses import without_secrets
from snapshots.format.files import BadLocation, LocationUnreachable, MissingFile
from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST
from snapshots.format.object_store import ObjectStore
from snapshots.format.verify import verify
from tests.support.running import ROOT, free_port
from tests.support.sample_snapshots import rows_in, sealed

ID = "20261121T205911Z-000000012345-3f9a1c"
OTHER = "20260921T141320Z-000000000901-000002"


@pytest.fixture(params=["path", "file:", "s3:"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "s3:":
        bucket, _, options = str(request.getfixturevalue("s3")).partition("?")
        return Location.parse(f"{bucket}/{tmp_path.name}?{options}")
    return Location.parse(tmp_path if request.param == "path" else (tmp_path / "a b").as_uri())


def test_what_is_written_is_read_and_listed(location: Location) -> None:
    assert location.folders() == []
    assert location.files(ID) == []
    with pytest.raises(MissingFile):
        location.read(f"{ID}/{MANIFEST}")
    location.write(f"{ID}/part-1.arrow", b"one")
    location.write(f"{ID}/{MANIFEST}", b"")
    location.write(f"{ID}/part-1.arrow", large := bytes(7 << 20))
    assert location.read(f"{ID}/part-1.arrow") == large
    assert location.read(f"{ID}/part-1.arrow", 5) == large[:6], "one more tells that it is larger"
    assert location.read(f"{ID}/{MANIFEST}") == b""
    assert location.folders() == [ID]
    assert location.files(ID) == [MANIFEST, "part-1.arrow"]


def test_parts_of_a_file_are_read_and_files_are_copied_in_place(location: Location) -> None:
    content = bytes(range(256)) * 1000
    location.write(f"{ID}/part-1.arrow", content)
    assert location.read_range(f"{ID}/part-1.arrow", 1000, 50) == content[1000:1050]
    assert location.read_range(f"{ID}/part-1.arrow", len(content) - 3, 50) == content[-3:]
    for _ in range(2):
        assert location.copy(f"{ID}/part-1.arrow", f"{OTHER}/part-1.arrow")
    assert location.files(OTHER) == ["part-1.arrow"]
    location.delete(ID)
    assert location.read(f"{OTHER}/part-1.arrow") == content
    with pytest.raises(MissingFile):
        location.read_range(f"{ID}/part-1.arrow", 0, 1)
    with pytest.raises(MissingFile):
        location.copy(f"{ID}/part-1.arrow", f"{OTHER}/part-2.arrow")
    assert location.files(OTHER) == ["part-1.arrow"]


def test_a_folder_is_deleted_and_again(location: Location) -> None:
    location.write(f"{ID}/part-1.arrow", b"one")
    location.write(f"{ID}/{MANIFEST}", b"two")
    for _ in range(2):
        location.delete(ID)
        assert location.folders() == []
    location.write(f"{ID}/part-1.arrow", b"half removed")
    location.delete(ID)
    assert location.files(ID) == []


def test_a_snapshot_is_written_and_verified(location: Location) -> None:
    rows = [(b"V%04d" % number, bytes([number % 256]) * 50) for number in range(2000)]
    manifest = sealed(location, rows)
    assert list(verify(location, manifest.id, lambda done, total: None)) == []
    assert rows_in(location, manifest) == rows


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", ".hidden", "a/../b", "a/b/c/d", ""])
def test_nothing_outside_is_reached(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
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
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
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
    """Other processes build, so this one need not have their libraries."""
    code = """
import sys
from snapshots.format.location import Location
assert Location.normalize_uri("hdfs://host:9000/x") == "hdfs://host:9000/x"
assert Location.normalize_uri("S3A://bucket/x") == "S3A://bucket/x"
assert Location.normalize_uri("file:///a%20b") == "/a b"
assert Location.normalize_uri("/a") == "/a"
assert "pyarrow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    with pytest.raises(BadLocation):
        Location.normalize_uri("ftp://host/x")


def test_no_password_is_shown(s3: str) -> None:
    location = Location.parse(s3)
    assert "password" in location.uri
    assert "password" not in str(location)
    assert "bucket/snapshots" in str(location)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (
            "abfs://container@account.dfs.core.windows.net/x",
            "abfs://container@account.dfs.core.windows.net/x",
        ),
        ("abfs://account@container/x?sv=1&sig=a%2Bb&se=2", "abfs://account@container/x?sv=1&se=2"),
        ("abfs://account:password@container/x", "abfs://container/x"),
        ("s3://key:pass@word@bucket/x", "s3://bucket/x"),
        ("abfs://account@container/x?AccountKey=a", "abfs://account@container/x"),
        ("'http://host/x?sig=a%2Bb'. It failed", "'http://host/x'. It failed"),
    ],
)
def test_what_is_shown_has_no_password_and_all_else(uri: str, shown: str) -> None:
    assert without_secrets(uri) == shown


def test_a_server_that_is_away_is_unreachable_and_not_empty() -> None:
    where = f"endpoint_override=127.0.0.1%3A{free_port()}&scheme=http&region=us-east-1"
    location = Location.parse(f"s3://u:p@bucket/x?{where}")
    with pytest.raises(LocationUnreachable):
        location.read(f"{ID}/{MANIFEST}")


def test_a_bucket_that_is_not_there_is_unreachable_and_not_empty(s3: str) -> None:
    location = Location.parse(s3.replace("@bucket/", "@nosuchbucket/"))
    for ask in (location.folders, lambda: location.files(ID), lambda: location.read(f"{ID}/{MANIFEST}")):
        with pytest.raises(LocationUnreachable, match="no bucket or container named nosuchbucket: create it"):
            ask()
    with pytest.raises(LocationUnreachable, match="nosuchbucket"):
        location.write(f"{ID}/{MANIFEST}", b"")


class Store:
    """A folder that answers like a store of another kind, and records the calls."""

    def __init__(self, type_name: str, **answers: Any) -> None:
        self.type_name = type_name
        self.asked: list[str] = []
        self._answers = answers
        self._folder = fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return self._answers.get(name) or getattr(self._folder, name)


def refuse(*_: object) -> None:
    raise PermissionError("no right to see the bucket")


def test_a_bucket_that_may_not_be_asked_for_is_there(tmp_path: Path) -> None:
    store = Store("s3", get_file_info=lambda asked: refuse() if isinstance(asked, str) else [])
    assert ObjectStore(store, f"{tmp_path}/x").names("", folders=True) == []


def test_a_bucket_is_not_asked_for_where_something_is_found(tmp_path: Path) -> None:
    (tmp_path / ID).mkdir()
    store = Store("s3")
    assert ObjectStore(store, str(tmp_path)).names("", folders=True) == [ID]
    assert store.asked == ["get_file_info"]


@pytest.mark.parametrize("renames", [True, False])
def test_a_file_is_whole_when_it_comes_to_its_place(tmp_path: Path, *, renames: bool) -> None:
    folder = fs.LocalFileSystem()
    seen: list[tuple[bytes, bytes]] = []

    def watched(bring: Any) -> Any:
        def run(new: str, file: str) -> None:
            seen.append((Path(file).read_bytes(), Path(new).read_bytes()))
            bring(new, file)

        return run

    def move(new: str, file: str) -> None:
        raise ArrowNotImplementedError("this store does not rename")

    store = Store(
        "other", move=watched(folder.move) if renames else move, copy_file=watched(folder.copy_file)
    )
    (tmp_path / ID).mkdir()
    (tmp_path / ID / MANIFEST).write_bytes(b"old")
    ObjectStore(store, str(tmp_path)).write(f"{ID}/{MANIFEST}", b"new")
    assert seen == [(b"old", b"new")]
    assert [each.name for each in (tmp_path / ID).iterdir()] == [MANIFEST]
    assert (tmp_path / ID / MANIFEST).read_bytes() == b"new"


def test_a_file_is_replaced_where_nothing_is_renamed_onto_another(tmp_path: Path) -> None:
    def move(new: str, file: str) -> None:
        assert not Path(file).exists()
        Path(new).rename(file)

    remote = ObjectStore(Store("hdfs", move=move), str(tmp_path))
    for content in (b"old", b"new"):
        remote.write(f"{ID}/{MANIFEST}", content)
        assert remote.read(f"{ID}/{MANIFEST}", 1 << 20) == content
    assert remote.names(ID, folders=True) == []


def test_azure_is_asked_for_a_list_before_a_file(tmp_path: Path) -> None:
    """Arrow ends the process for a file without credentials."""
    (tmp_path / ID).mkdir()
    (tmp_path / ID / MANIFEST).write_bytes(b"1")
    store = Store("abfs")
    remote = ObjectStore(store, str(tmp_path))
    for _ in range(2):
        assert remote.read(f"{ID}/{MANIFEST}", 1) == b"1"
    assert store.asked == ["get_file_info", "open_input_stream", "open_input_stream"]


def test_a_folder_that_cannot_be_written_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocationUnreachable, match="file"):
        Location.parse(tmp_path / "file").write(f"{ID}/{MANIFEST}", b"")


def test_a_killed_write_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    location = Location.parse(tmp_path)
    location.write(f"{ID}/{MANIFEST}", b"old")
    script = (
        "import os, signal, sys; from snapshots.format.location import Location\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"Location.parse(sys.argv[1]).write('{ID}/{MANIFEST}', b'new')"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert location.read(f"{ID}/{MANIFEST}") == b"old"
    assert location.files(ID) == [MANIFEST]
    location.delete(ID)
    assert not (tmp_path / ID).exists()
