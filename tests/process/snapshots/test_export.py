"""``registrar snapshot export``: complete files for people to read."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.backup.diff_sources import Content
from snapshots.backup.export import OutputNotEmpty, export_files, export_lines, file_name
from snapshots.building.task import silent
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest
from snapshots.format.stored import UnusableSnapshot
from tests.process.snapshots.test_diff import NEW, OLD
from tests.support.sample_snapshots import build, log_of, version

STATE = [*OLD, *NEW, version("a/b: ..", 1, 9, '"int"'), version("", 1, 10, context=".c")]


def content_of(folder: Path) -> Content:
    manifest: Manifest = build(folder, log_of(STATE))
    return Content(Location.parse(folder / "snapshots"), manifest)


def test_every_version_has_its_folder(tmp_path: Path) -> None:
    content = content_of(tmp_path)
    export_files(content, tmp_path / "out", silent)
    there = {
        str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.*") if file.is_file()
    }
    versions = {
        f"{subject}/{version}/{file}"
        for subject, version in [
            ("subjects/kept", 1), ("subjects/kept", 2), ("subjects/kept", 3), ("subjects/deleted", 1),
            ("subjects/other", 1), ("subjects/added", 1), ("subjects/a%2Fb%3A ..", 1),
            ("contexts/c/subjects/d", 1), ("contexts/c/subjects/%", 1),
        ]
        for file in ("schema.avsc", "entity.json")
    }  # fmt: skip
    assert there == versions | {"configs.json", "modes.json", "snapshot.json"}
    kept = tmp_path / "out" / "subjects" / "kept" / "2"
    assert (kept / "schema.avsc").read_text() == '"long"'
    entity = json.loads((kept / "entity.json").read_text())
    assert (entity["id"], entity["version"], entity["schema"], entity["deleted"]) == (2, 2, '"long"', False)
    deleted = json.loads((tmp_path / "out" / "subjects" / "deleted" / "1" / "entity.json").read_text())
    assert deleted["deleted"]
    assert json.loads((tmp_path / "out" / "configs.json").read_text()) == {
        "kept": {"compatibilityLevel": "BACKWARD"}
    }
    assert json.loads((tmp_path / "out" / "modes.json").read_text()) == {
        "": {"mode": "READONLY"}, "kept": {"mode": "READONLY"},
    }  # fmt: skip


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    content = content_of(tmp_path)
    with pytest.raises(OutputNotEmpty):
        export_files(content, tmp_path, silent)


def test_lines_are_json_with_their_kind(tmp_path: Path) -> None:
    out = io.BytesIO()
    export_lines(content_of(tmp_path), out, silent)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["kind"] for line in lines] == ["config", "mode", "mode"] + ["version"] * 9
    assert {line["subject"] for line in lines if line["kind"] == "version"} >= {":.c:d", "a/b: .."}


def test_a_damaged_snapshot_is_not_exported_as_if_it_were_whole(tmp_path: Path) -> None:
    content = content_of(tmp_path)
    part = tmp_path / "snapshots" / content.manifest.id / content.manifest.parts[-1].name
    part.write_bytes(part.read_bytes()[:-4])
    with pytest.raises(UnusableSnapshot):
        export_files(content, tmp_path / "out", silent)
    assert not (tmp_path / "out" / "snapshot.json").exists()


@given(st.sets(st.text(max_size=300), max_size=20))
def test_names_of_folders_differ_and_are_names_everywhere(names: set[str]) -> None:
    made = [file_name(name.encode("utf-8", "replace").decode()) for name in names]
    assert len(set(made)) == len({name.encode("utf-8", "replace") for name in names})
    for each in made:
        assert each
        assert each not in (".", "..")
        assert "/" not in each
        assert "\0" not in each
        assert len(each.encode()) < 256


@given(st.lists(st.integers(0, 300), min_size=2, max_size=2, unique=True))
def test_names_of_dots_alone_differ_and_fit(lengths: list[int]) -> None:
    first, second = (file_name("." * length) for length in lengths)
    assert first != second
    assert "." not in first + second
    assert max(len(first), len(second)) < 256
