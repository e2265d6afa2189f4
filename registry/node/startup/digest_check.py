"""Verification of the rows loaded from a snapshot against its digest, while the node serves them.

Loading checks the hashes of the snapshot's parts against the manifest, but not the digest of the rows, which
would double the time of a start. A separate process computes that digest while the node serves. If it is
wrong, the store is condemned, the snapshot is never loaded again, and the node starts over without it.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time

from registry.base.processes.child_process import module_command
from registry.store.check import WRONG
from registry.store.layout import DamagedStore
from registry.store.lmdb import Store
from snapshots.loading.candidates import add_rejected

_LOOK_S = 0.1
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT}
_log = logging.getLogger(__name__)


def verify_digest(store: Store, stopping: threading.Event) -> None:
    """Verify the digest of rows loaded from a snapshot; do nothing if that was done before.

    Raises :class:`DamagedStore` if it is wrong. Returns early if ``stopping`` is set.
    """
    snapshot = store.loaded_from
    if not snapshot:
        return
    began = time.monotonic()
    command, environment = module_command("registry.store.check", str(store.path), "digest")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:  # noqa: S603 (ours)
        while process.poll() is None:
            if stopping.wait(_LOOK_S):
                process.kill()
                return
        assert process.stdout is not None
        found = process.stdout.read().decode(errors="replace")
    code = process.returncode
    if -code in _CRASHES:
        found = f"its rows cannot be read ({signal.Signals(-code).name})"
    elif code not in (0, WRONG):
        _log.warning("cannot compute the digest of the snapshot %s (exit code %d)", snapshot, code)
        return
    if found:
        add_rejected(
            store.path.parent,
            snapshot,
            f"when loaded, {found.replace('its', 'the', 1)}",
        )
        store.condemn(found)
        raise DamagedStore(
            f"the store {store.path}, loaded from the snapshot {snapshot}, is damaged: {found}"
        )
    store.mark_verified()
    _log.info("the rows of the snapshot %s give its digest, as added up in %.1f s",
              snapshot, time.monotonic() - began)  # fmt: skip
