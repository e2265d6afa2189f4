"""Entry point of the node's process: starts opening log and store, and imports the node meanwhile."""

from __future__ import annotations

import logging
import os
import sys

from registry.base.processes.child_process import started_by_parent

from .startup.open import begin


def main() -> None:
    """Run the node until the parent requests a stop or ends."""
    parent = started_by_parent("node")
    opening = begin(parent.settings)
    import uvloop  # noqa: PLC0415

    from .process import run  # noqa: PLC0415

    code = uvloop.run(run(parent, opening))
    if not opening.opened.done():
        # The opening thread still waits for something unavailable, and sys.exit would wait for that thread.
        logging.shutdown()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
