"""Files of folders, on disk and at git revisions: hostile ones are refused, nothing outside is touched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from registry.cli.folder import trees
from registry.cli.folder.contents import MANIFEST, FolderError
from registry.cli.folder.reading import read
from registry.cli.folder.trees import at_revision, file_on_disk, on_disk, write


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *settings, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "schemas" / "orders").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "schemas" / "a.avsc").write_text('"int"')
    (folder / "schemas" / "orders" / "1.avsc").write_text('"long"')
    (folder / "schemas" / "with\nline \u00fc.avsc").write_text('"bytes"')
    (folder / "schemas" / MANIFEST).write_text("")
    (folder / "schemas" / "readme.md").write_text("x")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def test_schemas_and_the_manifest_are_read_and_all_else_is_left_out(repository: Path) -> None:
    folder = repository / "schemas"
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "b.avsc").write_text("x")
    assert on_disk(folder) == {
        "a.avsc": b'"int"',
        "orders/1.avsc": b'"long"',
        "with\nline \u00fc.avsc": b'"bytes"',
        MANIFEST: b"",
    }


def test_a_revision_has_what_was_committed(repository: Path) -> None:
    folder = repository / "schemas"
    before = on_disk(folder)
    (folder / "a.avsc").write_text('"double"')
    (folder / "new.avsc").write_text('"double"')
    assert at_revision(folder, "HEAD") == before
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    assert at_revision(folder, "HEAD") == on_disk(folder)
    assert at_revision(folder, "HEAD~1") == before


def test_a_folder_that_a_revision_lacks_is_empty_there(repository: Path) -> None:
    (repository / "other").mkdir()
    assert at_revision(repository / "other", "HEAD") == {}


@pytest.mark.parametrize("revision", ["HEAD~9", "nowhere", "--output=x", "", "HEAD:schemas"])
def test_an_unknown_revision_is_refused(repository: Path, revision: str) -> None:
    with pytest.raises(FolderError, match="is not a revision"):
        at_revision(repository / "schemas", revision)


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="not a git repository"):
        at_revision(tmp_path, "HEAD")


def test_symbolic_links_are_not_followed(repository: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.avsc"
    secret.write_text("secret")
    link = repository / "schemas" / "link.avsc"
    link.symlink_to(secret)
    with pytest.raises(FolderError, match=r"link.avsc is a symbolic link"):
        on_disk(repository / "schemas")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "link")
    with pytest.raises(FolderError, match=r"link.avsc is a symbolic link in git"):
        at_revision(repository / "schemas", "HEAD")
    link.unlink()
    (repository / "schemas" / "away").symlink_to(tmp_path)
    with pytest.raises(FolderError, match="away is a symbolic link"):
        on_disk(repository / "schemas")


def test_a_name_that_is_not_utf_8_names_no_subject(repository: Path) -> None:
    folder = repository / "schemas"
    (folder / os.fsdecode(b"bad\xff.avsc")).write_text('"int"')
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "bad")
    for tree in (on_disk(folder), at_revision(folder, "HEAD")):
        with pytest.raises(FolderError, match="cannot determine the subject"):
            read(tree)


def test_pipes_and_huge_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.avsc")
    with pytest.raises(FolderError, match="not a regular file"):
        on_disk(tmp_path)
    (tmp_path / "a.avsc").unlink()
    with (tmp_path / "a.avsc").open("wb") as file:
        file.truncate(trees.FILE_BYTES_MAX + 1)
    with pytest.raises(FolderError, match="larger than 16 MiB"):
        on_disk(tmp_path)
    with pytest.raises(FolderError, match="larger than 16 MiB"):
        file_on_disk(tmp_path / "a.avsc")


def test_a_folder_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "/".join("d" * 70)).mkdir(parents=True)
    with pytest.raises(FolderError, match="more than 64 folders deep"):
        on_disk(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"cannot read .*gone: No such file"):
        on_disk(tmp_path / "gone")


def test_writing_replaces_what_differs_and_removes_other_schemas_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "schemas"
    tree = {"a.avsc": b"1", "b/1.json": b"2", MANIFEST: b""}
    assert write(folder, tree) == sorted(tree)
    assert write(folder, tree) == []
    (folder / "notes.md").write_text("mine")
    assert write(folder, {"a.avsc": b"1", MANIFEST: b""}) == []
    assert write(folder, {"a.avsc": b"3", MANIFEST: b""}, ["b/1.json", "gone"]) == ["a.avsc", "b/1.json"]
    assert on_disk(folder) == {"a.avsc": b"3", MANIFEST: b""}
    assert (folder / "notes.md").read_text() == "mine"


def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "schemas"
    outside.mkdir()
    folder.mkdir()
    (folder / "b").symlink_to(outside)
    with pytest.raises(FolderError, match="b is a symbolic link"):
        write(folder, {"b/1.avsc": b"1"})
    assert list(outside.iterdir()) == []
    (folder / "b").unlink()
    (outside / "victim").write_text("precious")
    (folder / ".a.avsc.part").symlink_to(outside / "victim")  # the name of the file while it is written
    assert write(folder, {"a.avsc": b"1"}) == ["a.avsc"]
    assert ((outside / "victim").read_text(), (folder / "a.avsc").is_symlink()) == ("precious", False)
