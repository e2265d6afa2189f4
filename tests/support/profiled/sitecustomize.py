"""Counting of calls in every process that starts with this folder in ``PYTHONPATH``.

``SIGUSR1`` begins to count the calls of this project's functions; another one writes the counts as JSON into
the folder ``COUNTS``: ``PID.json``, by "file function caller".
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

_ROOT = f"{Path(__file__).parents[3]}/registry/"
_counts: Counter[str] = Counter()
_counting = False


def _profile(frame: FrameType, event: str, arg: Any) -> None:
    code = frame.f_code
    if _counting and event == "call" and code.co_filename.startswith(_ROOT):
        caller = frame.f_back.f_code.co_qualname if frame.f_back else ""
        _counts[f"{code.co_filename.removeprefix(_ROOT)} {code.co_qualname} {caller}"] += 1


def _toggle(number: int, frame: FrameType | None) -> None:
    global _counting  # noqa: PLW0603 (a handler has nowhere else to keep it)
    _counting = not _counting
    state = Path(os.environ["COUNTS"], f"{os.getpid()}")
    if _counting:
        state.with_suffix(".counting").touch()
    else:
        state.with_suffix(".new").write_text(json.dumps(_counts))
        state.with_suffix(".new").rename(state.with_suffix(".json"))


signal.signal(signal.SIGUSR1, _toggle)
threading.setprofile(_profile)
sys.setprofile(_profile)
