"""Signed snapshots: with a key, everybody who uses a snapshot refuses those that were not signed with it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.base.config.settings import Settings
from registry.domain.rows import digest
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.node.past.reconstruction import SnapshotRows
from snapshots.building import builder
from snapshots.building.task import silent
from snapshots.catalogue.open import manifest_keys, open_catalogue, open_location
from snapshots.catalogue.retention import retire
from snapshots.format import stored
from snapshots.format.manifest import DELTA_FORMAT, MANIFEST, SIGNATURE, Manifest, ManifestKeys
from snapshots.format.stored import NOT_SIGNED, WRONGLY_SIGNED
from snapshots.format.verify import verify
from tests.process.snapshots.command_line import registrar
from tests.process.snapshots.test_deltas import SMALL
from tests.process.snapshots.test_local import embedded
from tests.process.snapshots.test_starting import rows, start, told
from tests.support.running import until
from tests.support.sample_snapshots import sealed
from tests.unit.random_logs import rows_of

KEY, OTHER = "k" * 32, "o" * 32


def built(settings: Settings, offset: int, key: str = "", **given: Any) -> Manifest:
    """Build a snapshot that the catalogue knows, signed with a key."""
    with closing(open_catalogue(settings)) as catalogue:
        signing = replace(settings, snapshots_key=key)
        return builder.build_now(signing, catalogue, "local", silent, offset=offset, **given)


def strip(settings: Settings, id: str) -> None:
    Path(settings.snapshots_location, id, SIGNATURE).unlink()


def change(settings: Settings, id: str) -> None:
    """Change the manifest as somebody would who can write to the location and knows how to."""
    file = Path(settings.snapshots_location, id, MANIFEST)
    manifest = Manifest.loads(file.read_bytes())
    file.write_bytes(manifest._replace(created_ms=manifest.created_ms + 1).dumps())


def sign_with_another_key(settings: Settings, id: str) -> None:
    file = Path(settings.snapshots_location, id, MANIFEST)
    digits = hmac.new(OTHER.encode(), file.read_bytes(), hashlib.sha256).hexdigest()
    file.with_name(SIGNATURE).write_text(digits)


def enlarge(settings: Settings, id: str) -> None:
    with Path(settings.snapshots_location, id, SIGNATURE).open("ab") as file:
        file.truncate(1 << 40)


def quiet(done: int, total: int) -> None:
    """Ignore progress."""


def test_the_signature_is_the_hmac_of_the_manifest(tmp_path: Path) -> None:
    """As ``openssl dgst -sha256 -hmac KEY manifest.json`` prints it."""
    known = embedded(tmp_path, 20)
    made = built(known, 20, KEY)
    folder = tmp_path / "snapshots" / made.id
    expected = hmac.new(KEY.encode(), (folder / MANIFEST).read_bytes(), hashlib.sha256).hexdigest()
    assert (folder / SIGNATURE).read_text() == f"{expected}\n"
    unsigned = built(known, 20)
    assert not (tmp_path / "snapshots" / unsigned.id / SIGNATURE).exists()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (strip, NOT_SIGNED),
        (change, WRONGLY_SIGNED),
        (sign_with_another_key, WRONGLY_SIGNED),
        (enlarge, WRONGLY_SIGNED),
    ],
)
def test_a_snapshot_without_a_signature_that_fits_cannot_be_used(
    tmp_path: Path, spoil: Callable[[Settings, str], None], why: str
) -> None:
    known = Settings(data=tmp_path, snapshots_key=KEY)
    location = open_location(known)
    made = sealed(location, [(b"Va", b"")])
    assert stored.find(location, "latest") == made
    assert not list(verify(location, made.id, quiet))
    spoil(known, made.id)
    assert [finding for finding in verify(location, made.id, quiet) if finding.endswith(why)]
    with pytest.raises(stored.SnapshotNotFound, match=f"that can be used: .* its manifest {why}"):
        stored.find(location, "latest")


def test_no_build_extends_what_is_not_signed_with_the_key(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    older, newer = built(known, 10, KEY), built(known, 15, KEY)
    assert newer.base == older.id
    strip(known, newer.id)
    assert built(known, 20, KEY).base == older.id


def test_a_request_whose_snapshot_was_planted_is_built(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    planted = built(known, 20, OTHER)
    with closing(open_catalogue(known)) as catalogue:
        entry = catalogue.entries()[planted.id]
        catalogue.forget(entry.id)
        entry = entry.in_state("requested", entry.updated_ms, manifest="", base="")
        catalogue.put(entry)
        signing = replace(known, snapshots_key=KEY)
        assert builder.build_request(signing, catalogue, entry, "local", silent).state == "ready"
    assert registrar(*verb("verify", tmp_path, KEY)).returncode == 0


def verb(name: str, data: Path, key: str, *words: str) -> tuple[str, ...]:
    keyed = ("--snapshots-key", key) if key else ()
    source = ("latest", "latest") if name == "diff" else ("latest",)
    return ("snapshot", name, *source, "--data", str(data), *keyed, *words)


def test_verbs_refuse_what_is_not_signed_with_the_key(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    made = built(known, 20, KEY)
    sound = registrar(*verb("verify", tmp_path, KEY))
    assert f"{made.id} is sound, as announced, signed: " in sound.stdout
    strip(known, made.id)
    into = ("--snapshots", known.snapshots_location, "--data", str(tmp_path / "new"))
    for words in (
        verb("restore", tmp_path, KEY, *into),
        verb("export", tmp_path, KEY, "--output", str(tmp_path / "exported")),
        verb("diff", tmp_path, KEY),
        ("duplicates", "latest", "--data", str(tmp_path), "--snapshots-key", KEY),
    ):
        refused = registrar(*words)
        assert refused.returncode in (1, 2), words
        assert f"its manifest {NOT_SIGNED}" in refused.stderr, words
    assert not (tmp_path / "new" / "log").exists()
    assert not (tmp_path / "exported").exists()
    found = registrar("snapshot", "verify", made.id, "--data", str(tmp_path), "--snapshots-key", KEY)
    assert (found.returncode, f"{MANIFEST} {NOT_SIGNED}" in found.stderr) == (1, True)


@pytest.mark.parametrize("format", [DELTA_FORMAT, "registrar-snapshot 99"])
def test_a_planted_manifest_keeps_nothing_from_being_deleted(tmp_path: Path, format: str) -> None:
    known = embedded(tmp_path, 20)
    older, planted = built(known, 10, KEY), built(known, 12, limits=SMALL)
    assert planted.needs == {older.id}
    (tmp_path / "snapshots" / planted.id / MANIFEST).write_bytes(planted._replace(format=format).dumps())
    newer = built(known, 15, KEY, extend=False)
    with closing(open_catalogue(known)) as catalogue:
        catalogue.forget(planted.id)
        retire(catalogue, 1, now_ms())
        assert set(catalogue.entries()) == {older.id, newer.id}, "without a key it might be needed"
        retire(catalogue, 1, now_ms(), ManifestKeys(KEY))
        assert set(catalogue.entries()) == {newer.id}
    assert not (tmp_path / "snapshots" / older.id).exists()


def test_a_node_starts_from_a_signed_delta_and_not_from_an_unsigned_one(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    full, delta = built(known, 10, KEY, limits=SMALL), built(known, 15, KEY, limits=SMALL)
    unsigned = built(known, 18, limits=SMALL)
    assert (delta.needs, unsigned.needs) == ({full.id}, {full.id, delta.id})
    sound = registrar(*verb("verify", tmp_path, KEY))
    assert f"{delta.id} is sound, as announced, signed: " in sound.stdout
    key = tmp_path / "key"
    key.write_text(KEY)
    with closing(EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)) as log:
        expected = rows_of(log.read(0, 20, 1 << 30).records)
    registry = start(tmp_path, "--snapshots-key-file", str(key)).wait()
    try:
        found = told(registry)
        assert (found["id"], found["loaded"]) == (delta.id, True)
        assert f"The snapshot {unsigned.id} is not used: its manifest {NOT_SIGNED}" in registry.output
        proof = f"the rows of the snapshot {delta.id} give its digest"
        until(lambda: proof in registry.output, 60, "the digest of all rows")
        assert rows(registry) == (20, digest.text(digest.of_rows(expected.items())))
    finally:
        assert registry.stop() == 0


def test_both_keys_are_accepted_while_keys_are_changed(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    built(known, 20, KEY)
    assert registrar(*verb("verify", tmp_path, OTHER)).returncode == 1
    both = registrar(*verb("verify", tmp_path, OTHER, "--snapshots-old-key", KEY))
    assert (both.returncode, ", signed: " in both.stdout) == (0, True)


def test_a_key_in_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    known = Settings(data=tmp_path, snapshots_key=KEY, snapshots_key_file=str(file))
    assert manifest_keys(known).current == KEY, "as long as the file is missing, what was read at the start"
    file.write_text(f"{OTHER}\n")
    assert manifest_keys(known).current == OTHER


def test_a_node_starts_from_the_next_older_snapshot_that_is_signed(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    signed, unsigned = built(known, 10, KEY), built(known, 15)
    planted = built(known, 18)
    with closing(open_catalogue(known)) as catalogue:
        catalogue.forget(planted.id)
    key = tmp_path / "key"
    key.write_text(KEY)
    registry = start(tmp_path, "--snapshots-key-file", str(key)).wait()
    try:
        found = told(registry)
        assert (found["id"], found["loaded"]) == (signed.id, True)
        assert f"The snapshot {unsigned.id} is not used: its manifest {NOT_SIGNED}" in registry.output
    finally:
        assert registry.stop() == 0


def test_the_past_is_not_reconstructed_from_what_is_not_signed(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    made = built(known, 20, KEY)
    strip(known, made.id)
    with (
        closing(open_catalogue(known)) as catalogue,
        closing(EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)) as log,
    ):
        entries = list(catalogue.entries().values())
        signing = replace(known, snapshots_key=KEY)
        bases = SnapshotRows(log, lambda: entries, lambda: manifest_keys(signing))
        assert [each.id for each in bases.ready()] == [made.id]
        assert bases.rows(entries[0], b".\0s01\0") is None
        assert bases.ready() == []
