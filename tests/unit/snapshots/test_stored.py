"""Files of a snapshot that were changed after it was announced."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from snapshots.format.location import Location
from snapshots.format.manifest import SIGNATURE, ManifestKeys, Part
from snapshots.format.stored import (
    NOT_SIGNED,
    WRONGLY_SIGNED,
    UnusableSnapshot,
    read_part,
    reason_not_trusted,
)

CONTENT, MANIFEST = b"rows", b"{}"


@pytest.mark.parametrize("changed", [b"rowt", b"rowss", b"row", b""])
def test_a_part_is_read_only_as_its_manifest_describes_it(tmp_path: Path, changed: bytes) -> None:
    file = tmp_path / "one" / "part-0.arrow"
    file.parent.mkdir()
    file.write_bytes(CONTENT)
    part = Part(file.name, 1, len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), b"a", b"a")
    assert read_part(Location.parse(tmp_path), "one", part) == CONTENT
    file.write_bytes(changed)
    with pytest.raises(UnusableSnapshot, match=r"part-0\.arrow"):
        read_part(Location.parse(tmp_path), "one", part)


def test_a_manifest_counts_only_with_the_signature_of_a_key_that_is_set(tmp_path: Path) -> None:
    def reason(current: str, old: str = "") -> str:
        return reason_not_trusted(Location.parse(tmp_path, ManifestKeys(current, old)), "one", MANIFEST)

    (tmp_path / "one").mkdir()
    assert reason("") == ""
    assert reason("key") == NOT_SIGNED
    (tmp_path / "one" / SIGNATURE).write_bytes(ManifestKeys("key").sign(MANIFEST))
    assert reason("key") == reason("new", "key") == ""
    assert reason("new") == WRONGLY_SIGNED
