"""``python -m snapshots build …`` is ``registrar snapshot build …``."""

from __future__ import annotations

import sys

from registry.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["snapshot", *sys.argv[1:]]))
