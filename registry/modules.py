"""Running a module of ours in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def module_command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment that run a module of ours in this interpreter, wherever the package lies.

    The working directory is left out (``-P``): a folder there that is named as one of ours must not be run.
    """
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), environment.get("PYTHONPATH"))))
    return [sys.executable, "-P", "-m", module, *arguments], environment
