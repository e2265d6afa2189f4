"""The number of cores that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_OWN, _ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def usable_cores(own: Path = _OWN, root: Path = _ROOT) -> int:
    """Return the number of cores, at least 1: as the affinity and the quota of the control group allow.

    A container's limit of CPU is such a quota; its processes see all cores of the machine. ``own`` lists the
    control groups of this process, ``root`` is where they are mounted. See cgroups(7).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, *(math.ceil(quota) for quota in _quotas(own, root)), cores))


def _quotas(own: Path, root: Path) -> Iterator[float]:
    """Yield the quotas of the control groups of this process and of those around them, in cores."""
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "cpu" if controllers else root
        folder = mount / path.strip("/")
        for each in (folder, *folder.parents):
            if each.is_relative_to(mount):
                quota, _, period = _text(each / "cpu.max").partition(" ")  # version 2
                quota = quota or _text(each / "cpu.cfs_quota_us").strip()  # version 1
                period = period or _text(each / "cpu.cfs_period_us")
                if quota.isdigit() and period:
                    yield int(quota) / int(period)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
