"""Memory that a process frees: returned to the system as a rule, kept while as much is soon needed again."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from registry.base.processes.child_process import module_command

# Prints the page faults that taking 3 MB forty times causes: as usual, with memory kept, and as usual again.
_CHILD = """
import resource
from registry.base.processes.child_process import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(40):
        bytearray(b"x") * (3 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = faults()
keep_freed_memory(keep=True)
kept = faults()
keep_freed_memory(keep=False)
print(usual, kept, faults())
"""


def faults(**settings: str) -> list[int]:
    _, environment = module_command("unused")
    said = subprocess.run(
        [sys.executable, "-c", _CHILD], env=environment | settings, capture_output=True, text=True, check=True
    )
    return list(map(int, said.stdout.split()))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc's allocator")
def test_memory_that_is_kept_causes_no_page_faults_again() -> None:
    usual, kept, again = faults()
    assert kept < usual / 10
    assert again > usual / 2


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc's allocator")
def test_settings_of_the_allocator_in_the_environment_are_kept() -> None:
    usual, kept, _ = faults(MALLOC_MMAP_THRESHOLD_="65536")
    assert kept > usual / 2
