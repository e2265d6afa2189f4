"""Policies and audit log of the node's process, also for the HTTP server of a host without readers."""

from __future__ import annotations

import asyncio

from registry.audit.file_changes import FileChanges
from registry.audit.log import open_audit_log
from registry.base.config.settings import Settings
from registry.security.policies_file import PoliciesFile


class Governance:
    """The policies in force and the audit log, from when the process starts until it ends."""

    def __init__(self, settings: Settings) -> None:
        """Read and open the files, and watch them; must be called on the event loop.

        Raises :class:`FileError`.
        """
        self.policies = PoliciesFile(settings.policies)
        self.audit = open_audit_log(settings)
        watched = [self.policies.watch()]
        if self.audit is not None:
            watched.append(FileChanges(settings, self.audit).watch())
        loop = asyncio.get_running_loop()
        self._watching = [loop.create_task(each) for each in watched]

    @property
    def audit_lost(self) -> int:
        """Number of audit entries of this process that could not be written."""
        return 0 if self.audit is None else self.audit.lost

    async def close(self, grace_s: float) -> None:
        """Stop watching, and write the audit entries that wait, for up to ``grace_s`` seconds."""
        for each in self._watching:
            each.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        if self.audit is not None:
            await self.audit.close(grace_s)
