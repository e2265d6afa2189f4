"""Counting of calls in every process that starts with this folder in ``PYTHONPATH``.

``SIGUSR1`` begins to count; another one writes ``PID.json`` into the folder ``COUNTS``: ``calls`` of this
project's functions by "file function caller", the number of ``builtins`` that they called, and by how many
``blocks`` of memory the process has grown. ``COUNTED`` names another checkout whose functions are counted.

The thread that fills the search index is not counted: no request waits for it, and when it works is chance.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

_ROOT = f"{os.environ.get('COUNTED') or Path(__file__).parents[3]}/registry/"
_counts: Counter[str] = Counter()
_builtins = _blocks = 0
_counting = False


def _profile(frame: FrameType, event: str, arg: Any) -> None:
    global _builtins  # noqa: PLW0603 (as below)
    code = frame.f_code
    if not _counting or not code.co_filename.startswith(_ROOT):
        return
    if threading.current_thread().name == "search":
        return
    if event == "c_call":
        _builtins += 1
    elif event == "call":
        caller = frame.f_back.f_code.co_qualname if frame.f_back else ""
        _counts[f"{code.co_filename.removeprefix(_ROOT)} {code.co_qualname} {caller}"] += 1


def _toggle(number: int, frame: FrameType | None) -> None:
    global _counting, _builtins, _blocks  # noqa: PLW0603 (a handler has nowhere else to keep them)
    _counting = not _counting
    state = Path(os.environ["COUNTS"], f"{os.getpid()}")
    gc.collect()
    if _counting:
        # The keys stay, so that counting the same again takes no memory.
        for each in _counts:
            _counts[each] = 0
        _builtins, _blocks = 0, sys.getallocatedblocks()
        state.with_suffix(".counting").touch()
    else:
        grown = sys.getallocatedblocks() - _blocks
        counted = {"calls": +_counts, "builtins": _builtins, "blocks": grown}
        state.with_suffix(".new").write_text(json.dumps(counted))
        state.with_suffix(".new").rename(state.with_suffix(".json"))


signal.signal(signal.SIGUSR1, _toggle)
threading.setprofile(_profile)
sys.setprofile(_profile)
