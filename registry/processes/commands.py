"""Running a module of ours in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# glibc's allocator, which reads these when a process starts; others ignore them. Threads share two heaps, and
# blocks of a mebibyte and more go back to the system when they are freed. By default it keeps what large
# requests took, in a heap for each thread.
_ALLOCATOR = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 20),
}


def module_command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment that run a module of ours in this interpreter, wherever the package lies.

    What the environment says of the allocator already stays.
    The working directory is left out (``-P``): a folder there that is named as one of ours must not be run.
    """
    environment = {**_ALLOCATOR, **os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), environment.get("PYTHONPATH"))))
    return [sys.executable, "-P", "-m", module, *arguments], environment
