"""The manifest: it is read as it was written, and nothing else is taken for one."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.format.manifest import (
    DELTA_FORMAT,
    FORMAT,
    BadManifest,
    Delta,
    Manifest,
    Part,
    delta_name,
    is_id,
    new_id,
    part_name,
)

HASHES = [hashlib.sha256(each).hexdigest() for each in (b"a", b"b")]
PARTS = (
    Part(part_name(HASHES[0]), 3, 1000, HASHES[0], b"A\0", b"Ma\xff"),
    Part(part_name(HASHES[1]), 2, 900, HASHES[1], b"V\0", b"V\xff"),
)
MANIFEST = Manifest(
    id=new_id(12, 1_795_296_368_210, 0x3F9A1C),
    format=FORMAT,
    fold=1,
    log="cluster/_schemas/id",
    offset=12,
    comparable_from=14,
    at_end_ms=5,
    created_ms=6,
    engine="local",
    base="",
    counts={"A": 3, "V": 2},
    digest=2**127 + 1,
    parts=PARTS,
)


def said(manifest: Manifest, **other: object) -> bytes:
    """Return a manifest with other content, and the hash that belongs to it."""
    return manifest._replace(**other).dumps()  # type: ignore[arg-type]


def test_what_is_written_is_read_again() -> None:
    assert Manifest.loads(MANIFEST.dumps()) == MANIFEST
    assert json.loads(MANIFEST.dumps())["digest"] == f"{MANIFEST.digest:032x}"
    assert (MANIFEST.rows, MANIFEST.size) == (5, 1900)


def test_a_snapshot_without_rows_has_no_parts() -> None:
    empty = MANIFEST._replace(parts=(), counts={}, digest=0)
    assert Manifest.loads(empty.dumps()) == empty


@given(st.integers(0, len(MANIFEST.dumps()) * 8 - 1))
def test_any_flipped_bit_is_noticed(bit: int) -> None:
    damaged = bytearray(MANIFEST.dumps())
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadManifest):
        Manifest.loads(bytes(damaged))


@pytest.mark.parametrize("length", [0, 1, 100, len(MANIFEST.dumps()) - 1])
def test_a_manifest_that_was_cut_is_noticed(length: int) -> None:
    with pytest.raises(BadManifest, match="damaged or truncated"):
        Manifest.loads(MANIFEST.dumps()[:length])


def test_a_newer_format_is_named() -> None:
    with pytest.raises(BadManifest, match="registrar-snapshot 3"):
        Manifest.loads(said(MANIFEST, format="registrar-snapshot 3"))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"id": "../x"}, "not the id"),
        ({"offset": -1}, "numbers"),
        ({"offset": "1"}, "invalid"),
        ({"offset": 1 << 63}, "numbers"),
        ({"at_end_ms": None}, "times"),
        ({"at_end_ms": 1 << 63}, "times"),
        ({"created_ms": -1}, "times"),
        ({"created_ms": 1 << 60}, "times"),
        ({"parts": (PARTS[0]._replace(size=1 << 40), PARTS[1])}, "more than any part"),
        ({"parts": (PARTS[0]._replace(rows=1 << 40), PARTS[1])}, "more than any part"),
        ({"parts": PARTS[::-1]}, "does not follow"),
        ({"parts": PARTS[:1]}, "different numbers of rows"),
        ({"parts": (PARTS[0]._replace(name="../../etc/passwd"), PARTS[1])}, "name of a part"),
        ({"parts": (PARTS[0]._replace(first=b"N"), PARTS[1])}, "does not follow"),
        ({"parts": (PARTS[0]._replace(size="1"), PARTS[1])}, "numbers"),
        ({"parts": (PARTS[0]._replace(name=7), PARTS[1])}, "invalid"),
        ({"counts": {"A": 3, "V": -2}}, "numbers"),
        ({"log": 7}, "names"),
        ({"digest": 1 << 128}, "digest"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(other: dict[str, object], why: str) -> None:
    with pytest.raises(BadManifest, match=why):
        Manifest.loads(said(MANIFEST, **other))


OLDER, UPON = (new_id(offset, 1_795_296_000_000, offset) for offset in (5, 9))
CHANGES = Part(delta_name(HASHES[1]), 4, 700, HASHES[1], b"A\0", b"V\xff")
DELTAS = (
    Delta(UPON, (CHANGES,)),
    Delta(MANIFEST.id, (CHANGES._replace(size=1), CHANGES._replace(first=b"W", last=b"X"))),
)
WITH_DELTAS = MANIFEST._replace(format=DELTA_FORMAT, full=OLDER, deltas=DELTAS, counts={"A": 2, "V": 7})


def test_one_with_deltas_says_whose_files_it_needs() -> None:
    assert Manifest.loads(WITH_DELTAS.dumps()) == WITH_DELTAS
    assert (WITH_DELTAS.folder, WITH_DELTAS.needs) == (OLDER, {OLDER, UPON})
    assert (WITH_DELTAS.rows, WITH_DELTAS.size, WITH_DELTAS.delta_bytes) == (9, 1900 + 1401, 1401)


def test_a_full_one_is_what_releases_without_deltas_read() -> None:
    assert MANIFEST.format == "registrar-snapshot 1"
    assert (MANIFEST.folder, MANIFEST.needs) == (MANIFEST.id, frozenset())
    assert {*json.loads(MANIFEST.dumps())} == {
        "id", "format", "fold", "log", "offset", "comparable_from", "at_end_ms", "created_ms", "engine",
        "base", "counts", "digest", "parts", "lineage", "sha256",
    }  # fmt: skip
    assert json.loads(WITH_DELTAS.dumps())["format"] == "registrar-snapshot 2", "which they refuse"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"full": ""}, "which snapshots have its files"),
        ({"full": "../x"}, "which snapshots have its files"),
        ({"full": 7}, "which snapshots have its files"),
        ({"full": UPON}, "which snapshots have its files"),
        ({"full": MANIFEST.id}, "which snapshots have its files"),
        ({"full": MANIFEST.id, "deltas": DELTAS[:1]}, "upon itself"),
        ({"deltas": ()}, "0 deltas"),
        ({"deltas": tuple(Delta(new_id(each, 0, 1), (CHANGES,)) for each in range(101))}, "101 deltas"),
        ({"deltas": (DELTAS[0], DELTAS[0])}, "which snapshots have its files"),
        ({"deltas": (Delta(UPON, PARTS),)}, "name of a part"),
        ({"deltas": (Delta(UPON, (CHANGES, CHANGES)),)}, "does not follow"),
        ({"deltas": (Delta(UPON, (CHANGES._replace(size=1 << 40),)),)}, "more than any part"),
        ({"parts": (CHANGES,)}, "name of a part"),
    ],
)
def test_deltas_that_contradict_themselves_are_refused(other: dict[str, object], why: str) -> None:
    with pytest.raises(BadManifest, match=why):
        Manifest.loads(said(WITH_DELTAS, **other))


@pytest.mark.parametrize(
    "head", [b"", b"[1", b'{"format": "registrar-snapshot 1"', b'"a"', b"\xff", b'{"a":' + b"[" * 200_000]
)
def test_what_has_the_hash_but_is_no_manifest_is_refused(head: bytes) -> None:
    begins, ends = b',\n "sha256": "', b'"\n}\n'
    with pytest.raises(BadManifest):
        Manifest.loads(head + begins + hashlib.sha256(head).hexdigest().encode() + ends)


@pytest.mark.parametrize("ms", [-(1 << 63), 1 << 62])
def test_a_marker_of_any_time_gives_an_id(ms: int) -> None:
    assert is_id(new_id(1, ms, 1))


def test_ids_sort_by_time_and_are_names_of_folders() -> None:
    ids = [new_id(offset, ms, 1 << 30) for ms, offset in [(999, 9), (1000, 8), (10**12, 0)]]
    assert ids == sorted(ids)
    assert all(map(is_id, ids))
    assert not is_id("x" + ids[0])
