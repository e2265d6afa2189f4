"""The number of cores that a process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from registry.base.processes.cores import usable_cores

ALL = len(os.sched_getaffinity(0))
V1 = "4:memory:/x\n3:cpuacct,cpu:/a/b\n0::/\n"


def usable(folder: Path, own: str, files: dict[str, str]) -> int:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "own").write_text(own)
    return usable_cores(folder / "own", folder)


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/", {"cpu.max": "100000 100000\n"}, 1),
        ("0::/", {"cpu.max": "10000 100000\n"}, 1),
        ("0::/a/b", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 50000\n"}, 1),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "100000\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 1),
        (V1, {"cpu/cpu.cfs_quota_us": "20000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
    ],
    ids=["container", "less than one", "around", "version 1", "version 1, around"],
)
def test_a_quota_of_a_control_group_counts(
    tmp_path: Path, own: str, files: dict[str, str], cores: int
) -> None:
    assert usable(tmp_path, own, files) == cores


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("", {}),
        ("0::/", {"cpu.max": "max 100000\n"}),
        ("0::/", {"cpu.max": "99900000 100000\n"}),
        ("0::/a", {"cpu.max": "nonsense"}),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "-1\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}),
        (V1, {"memory/x/cpu.max": "1000 100000\n"}),
    ],
    ids=["no groups", "unlimited", "more than there are", "unreadable", "version 1", "another controller"],
)
def test_without_a_quota_all_cores_of_the_affinity_count(
    tmp_path: Path, own: str, files: dict[str, str]
) -> None:
    assert usable(tmp_path, own, files) == ALL


@pytest.mark.skipif(ALL < 2, reason="needs two cores")
def test_a_quota_of_one_and_a_half_is_rounded_up(tmp_path: Path) -> None:
    assert usable(tmp_path, "0::/", {"cpu.max": "150000 100000\n"}) == 2
