"""Program of the node's process: starts opening log and store, and imports the node meanwhile."""

from __future__ import annotations

from registry.base.processes.child_process import Parent

from .startup.open import begin


def main(parent: Parent) -> int:
    """Run the node until the parent requests a stop or ends; return the exit code.

    The opening thread may still wait for something unavailable then.
    """
    opening = begin(parent.settings)
    import uvloop  # noqa: PLC0415

    from .process import run  # noqa: PLC0415

    if parent.settings.kafka:
        from . import peering  # noqa: F401, PLC0415 (used once the log is open)

    return uvloop.run(run(parent, opening))
