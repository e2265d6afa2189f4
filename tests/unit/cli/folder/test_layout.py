"""Folders whose files people laid out, and into which a registry is downloaded."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import pytest

from registry.cli.folder.contents import MANIFEST, Contents, FolderError, Version
from registry.cli.folder.reading import read
from registry.cli.folder.writing import files_of
from tests.unit.small_registry import INT, LONG, record

SPELLED = b'{"type":   "record",\n   "name": "R", "fields": []}'


def registry(**subjects: dict[int, str]) -> Contents:
    return Contents(
        {
            subject: tuple(
                Version(text, number=number, schema_id=number) for number, text in versions.items()
            )
            for subject, versions in subjects.items()
        }
    )


def downloaded(before: Mapping[str, bytes], contents: Contents, **how: bool) -> dict[str, bytes]:
    """Return the files afterwards; the folder must be readable, and a second download change nothing."""
    tree, replaced = files_of(contents, before, **how)
    after = {path: data for path, data in {**before, **tree}.items() if path not in replaced}
    read(after)
    again, more = files_of(contents, after, **how)
    assert ({**after, **again}, more) == (after, [])
    return after


def paths(after: Mapping[str, bytes]) -> set[str]:
    return after.keys() - {MANIFEST}


def test_a_file_stays_where_it_is_as_it_is_spelled() -> None:
    before = {"sales/eu/r.avsc": SPELLED, "old.avsc": INT.encode()}
    after = downloaded(before, registry(r={3: record("R")}, new={1: INT}))
    assert paths(after) == {"sales/eu/r.avsc", "old.avsc", "new.avsc"}
    assert after["sales/eu/r.avsc"] == SPELLED
    changed = downloaded(before, registry(r={4: record("R", "a")}))
    assert b'"a"' in changed["sales/eu/r.avsc"]


def test_a_folder_is_made_whole_by_removing_other_schemas_and_no_other_files() -> None:
    before = {
        "r.avsc": INT.encode(),
        "old.avsc": INT.encode(),
        "gone/1.avsc": INT.encode(),
        "x/named.json": LONG.encode(),
        "package.json": b"{}",
        "examples/e.json": b"{}",
        MANIFEST: b'ignore = ["examples/*", "package.json"]\n'
        b'[subject.named]\nfile = "x/named.json"\nschemaType = "AVRO"\n',
    }
    after = downloaded(before, registry(r={1: INT}), whole=True)
    assert paths(after) == {"r.avsc", "package.json", "examples/e.json"}
    assert paths(downloaded(before, registry(r={1: INT}))) == paths(before)


def test_a_file_that_the_manifest_names_stays_named_by_it() -> None:
    before = {"x/schema.avsc": INT.encode(), MANIFEST: b'[subject.r]\nfile = "x/schema.avsc"\n'}
    after = downloaded(before, registry(r={1: LONG}))
    assert (paths(after), after["x/schema.avsc"]) == ({"x/schema.avsc"}, b'"long"\n')
    assert tomllib.loads(after[MANIFEST].decode())["subject"]["r"]["file"] == "x/schema.avsc"


def test_versions_take_the_place_of_the_only_file() -> None:
    after = downloaded({"sales/r.avsc": INT.encode()}, registry(r={1: INT, 3: LONG}))
    assert paths(after) == {"sales/r/1.avsc", "sales/r/3.avsc"}
    assert paths(downloaded({"sales/r.avsc": INT.encode()}, registry(r={2: INT}), keep_ids=True)) == {
        "sales/r/2.avsc"
    }


def test_the_latest_version_joins_the_earlier_ones() -> None:
    manifest = b'[subject.r.versions.1]\nmetadata = { properties = { a = "b" } }\n'
    before = {"sales/r/1.avsc": INT.encode(), "sales/r/2.avsc": INT.encode(), MANIFEST: manifest}
    after = downloaded(before, registry(r={3: LONG}))
    assert paths(after) == {f"sales/r/{number}.avsc" for number in (1, 2, 3)}
    assert read(after).versions["r"][0].metadata is not None
    renamed = {"v1.avsc": INT.encode(), MANIFEST: b'[subject.r.versions.1]\nfile = "v1.avsc"\n'}
    assert paths(downloaded(renamed, registry(r={2: LONG}))) == {"v1.avsc", "r/2.avsc"}


def test_a_schema_of_another_type_gets_another_extension() -> None:
    number = Version('{"type":"number"}', "JSON", number=2, schema_id=2)
    after = downloaded({"sales/r.avsc": INT.encode()}, Contents({"r": (number,)}))
    assert paths(after) == {"sales/r.json"}


def test_a_folder_that_cannot_be_read_is_not_written_to() -> None:
    for before, told in (
        ({"a/r.avsc": b"", "b/r.avsc": b""}, "are both r"),
        ({"snapshot.json": b"{}", "configs.json": b"{}", "modes.json": b"{}"}, "exported snapshot"),
    ):
        with pytest.raises(FolderError, match=told):
            files_of(registry(r={1: INT}), before)
