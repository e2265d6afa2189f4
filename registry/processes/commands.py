"""Running a module of this project in another process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# Read by glibc's allocator when a process starts. Threads share two heaps, and freed blocks of a mebibyte and
# more return to the system. By default, the memory of large requests stays in a heap for each thread.
_ALLOCATOR = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 20),
}


def module_command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment that run a module in this interpreter.

    Settings of the allocator in the present environment are kept. ``-P`` keeps a module of the same name in
    the working directory from being run instead.
    """
    environment = {**_ALLOCATOR, **os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), environment.get("PYTHONPATH"))))
    return [sys.executable, "-P", "-m", module, *arguments], environment
