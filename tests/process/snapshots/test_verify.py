"""Verification: any damage of a snapshot is found, and the message names the file."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST, Manifest, Part, part_name
from snapshots.format.parts import Row
from snapshots.format.verify import verify
from snapshots.format.writer import merge_runs, publish, write_run
from tests.process.snapshots.command_line import registrar
from tests.support.sample_snapshots import about, rows_in, sealed
from tests.unit.snapshots.test_parts import FORGED, many_rows


def quiet(done: int, total: int) -> None:
    """Ignore progress."""


def findings(location: Location, manifest: Manifest) -> list[str]:
    return list(verify(location, manifest.id, quiet))


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location.parse(tmp_path / "snapshots")


@pytest.fixture
def sound(location: Location) -> Manifest:
    return sealed(location, many_rows())


def test_a_sound_snapshot_gives_no_findings(location: Location, sound: Manifest) -> None:
    assert len(sound.parts) > 2
    assert findings(location, sound) == []
    assert rows_in(location, sound) == many_rows()


def test_an_empty_snapshot_is_sound(location: Location) -> None:
    assert findings(location, sealed(location, [])) == []


def test_a_flipped_bit_in_any_file_is_found_and_the_file_named(location: Location, sound: Manifest) -> None:
    chance = random.Random(1)
    for name in location.files(sound.id):
        content = location.read(f"{sound.id}/{name}")
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        location.write(f"{sound.id}/{name}", bytes(damaged))
        [finding] = findings(location, sound)
        assert finding.startswith(name)
        location.write(f"{sound.id}/{name}", content)
    assert findings(location, sound) == []


def test_a_part_that_was_cut_is_named(location: Location, sound: Manifest) -> None:
    path = f"{sound.id}/{sound.parts[1].name}"
    location.write(path, location.read(path)[:-1])
    assert [each.split()[:2] for each in findings(location, sound)] == [[sound.parts[1].name, "has"]] * 2


def test_a_part_that_is_missing_is_named(location: Location, sound: Manifest) -> None:
    (Path(location.uri) / sound.id / sound.parts[0].name).unlink()
    assert findings(location, sound) == [f"{sound.parts[0].name} is missing"]


def test_parts_that_changed_places_are_named(location: Location, sound: Manifest) -> None:
    paths = [f"{sound.id}/{part.name}" for part in sound.parts[:2]]
    contents = [location.read(path) for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        location.write(path, content)
    found = findings(location, sound)
    assert {each.split()[0] for each in found} == {part.name for part in sound.parts[:2]}


def test_a_missing_manifest_and_one_of_another_snapshot_are_reported(
    location: Location, sound: Manifest
) -> None:
    other = sealed(location, [(b"Va", b"")])
    location.write(f"{sound.id}/{MANIFEST}", other.dumps())
    assert any(other.id in each for each in findings(location, sound))
    (Path(location.uri) / sound.id / MANIFEST).unlink()
    assert "is missing" in findings(location, sound)[0]


def test_a_manifest_that_says_other_rows_is_found(location: Location) -> None:
    run = write_run(location, (known := about()).id, [many_rows()])
    for wrong in (
        run._replace(digest=run.digest + 1),
        run._replace(counts={"X": len(many_rows())}),
        run._replace(parts=[run.parts[0]._replace(last=run.parts[0].last + b"\0"), *run.parts[1:]]),
    ):
        assert findings(location, publish(location, known, wrong))
    assert not findings(location, publish(location, known, merge_runs([run])))


@pytest.mark.parametrize(("content", "rows", "first", "last", "why"), FORGED)
def test_a_forged_part_is_a_finding(
    location: Location, sound: Manifest, content: bytes, rows: int, first: bytes, last: bytes, why: str
) -> None:
    sha256 = hashlib.sha256(content).hexdigest()
    part = Part(part_name(sha256), rows, len(content), sha256, first, last)
    location.write(f"{sound.id}/{part.name}", content)
    forged = sound._replace(parts=(part,), counts={"V": rows})
    location.write(f"{sound.id}/{MANIFEST}", forged.dumps())
    [finding] = findings(location, forged)
    assert finding.startswith(f"{part.name} cannot be read: ")
    assert why in finding


def test_no_more_of_a_file_is_read_than_its_manifest_says(location: Location, sound: Manifest) -> None:
    with (Path(location.uri) / sound.id / sound.parts[0].name).open("ab") as file:
        file.truncate(1 << 40)
    [finding] = findings(location, sound)
    assert finding.startswith(f"{sound.parts[0].name} has more bytes than")
    with (Path(location.uri) / sound.id / MANIFEST).open("ab") as file:
        file.truncate(1 << 40)
    [finding] = findings(location, sound)
    assert finding.startswith(f"{MANIFEST} cannot be used")


SENSELESS: list[Row] = [
    *((table, b"") for table in (b"V", b"F", b"M", b"C", b"\xff")),
    (b"V.\0a\0\0\0\0\1", b"short"),
    (b"F.\0a\0", b"\xff"),
    (b"Cjunk", b"\xff"),
]


@pytest.mark.parametrize("row", SENSELESS)
def test_verbs_end_with_a_sentence_at_rows_that_no_release_writes(
    location: Location, tmp_path: Path, row: Row
) -> None:
    """The hashes fit, so that only who reads the rows can notice: no verb ends with a traceback."""
    sealed(location, [row])
    given = ("--data", str(tmp_path / "data"), "--snapshots", location.uri)
    for words in (
        ("snapshot", "verify", "latest"),
        ("snapshot", "export", "latest", "--output", str(tmp_path / "exported")),
        ("snapshot", "diff", "latest", "latest"),
        ("snapshot", "restore", "latest", "--empty"),
        ("duplicates", "latest"),
    ):
        done = registrar(*words, *given)
        assert done.returncode in (0, 1, 2), words
        assert len(done.stderr.splitlines()) == (done.returncode != 0), words
