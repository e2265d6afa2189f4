"""The node's process: begins to open log and store, and loads meanwhile what a node is made of."""

from __future__ import annotations

import logging
import os
import sys

from registry.processes.parent_channel import started_by_parent

from .startup.open import begin


def main() -> None:
    """Run until the parent says stop or ends."""
    parent = started_by_parent("node")
    opening = begin(parent.settings)
    import uvloop  # noqa: PLC0415

    from .process import run  # noqa: PLC0415

    code = uvloop.run(run(parent, opening))
    if not opening.opened.done():
        # Its thread waits for what is away, and would be waited for.
        logging.shutdown()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
