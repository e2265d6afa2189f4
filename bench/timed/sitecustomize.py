"""A profile of the first thread of every process that starts with this folder in ``PYTHONPATH``.

``SIGUSR1`` begins it and creates ``PID.counting`` in the folder ``COUNTS``; another one writes ``PID.prof``,
and into ``PID.cpu`` the seconds of CPU since then.
"""

from __future__ import annotations

import cProfile
import os
import signal
import time
from pathlib import Path
from types import FrameType

# A running profile, and when it began.
_profiles: list[tuple[cProfile.Profile, float]] = []


def _toggle(number: int, frame: FrameType | None) -> None:
    state = Path(os.environ["COUNTS"], f"{os.getpid()}")
    if _profiles:
        profile, began = _profiles.pop()
        profile.disable()
        state.with_suffix(".cpu").write_text(str(time.thread_time() - began))
        profile.dump_stats(state.with_suffix(".new"))
        state.with_suffix(".new").rename(state.with_suffix(".prof"))
    else:
        profile = cProfile.Profile(time.thread_time)
        _profiles.append((profile, time.thread_time()))
        state.with_suffix(".counting").touch()
        profile.enable()


signal.signal(signal.SIGUSR1, _toggle)
