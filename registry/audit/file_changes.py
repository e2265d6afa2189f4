"""Entries for new contents of the files that decide who may do what."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hashlib import sha256

from registry.base.config.settings import Settings
from registry.security.watched_file import CHECK_EVERY_S, FileError, WatchedFile

from .entry import FileEntry
from .log import AuditLog


class FileChanges:
    """Records the content of each file at the start, and each new content."""

    def __init__(self, settings: Settings, audit: AuditLog) -> None:
        self._audit = audit
        self._watched: list[WatchedFile[str]] = []
        files = {
            "users": settings.users,
            "rules": settings.rules,
            "jwt_jwks": "" if settings.jwt_jwks_is_url else settings.jwt_jwks,
            "tls_client_ca": settings.tls_client_ca,
            "policies": settings.policies,
        }
        for name, path in files.items():
            if path:
                self._add(name, path)

    async def watch(self, every_s: float = CHECK_EVERY_S) -> None:
        """Watch the files until cancelled."""
        await asyncio.gather(*(each.watch(every_s) for each in self._watched))

    def _add(self, name: str, path: str) -> None:
        def record() -> None:
            self._audit.record(FileEntry(name, path, file.value))

        with suppress(FileError):  # those who use the file refuse to start
            file = WatchedFile(path, _hash, changed=record, quiet=True)
            record()
            self._watched.append(file)


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
