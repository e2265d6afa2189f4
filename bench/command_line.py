"""The command line of a benchmark that needs a folder of its own."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path


def run_in_folder(
    description: str | None, run: Callable[[argparse.Namespace, Path], None], **defaults: int | Path
) -> None:
    """Call ``run`` with the options, one for each of ``defaults``, and a temporary folder in ``--folder``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    # Processes that end late may still write.
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.folder, ignore_cleanup_errors=True) as folder:
        run(given, Path(folder))
