"""Verification of passwords off the event loop, bounded in number and memory."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from registry.domain.errors import UNAVAILABLE

from .passwords import PASSWORD_BYTES_MAX
from .users import NAME_BYTES_MAX, User, Users

# One verification may take 128 MiB and all cores.
AT_ONCE_MAX = 2
PENDING_MAX = 64


class Verifier:
    """Verifies names and passwords in a few threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="password")
        self._pending = 0

    async def verified(self, users: Users, name: bytes, password: bytes) -> User | None:
        """Return the user if the password is right. Raises 503 if too many passwords are waiting."""
        if not users or len(name) > NAME_BYTES_MAX or len(password) > PASSWORD_BYTES_MAX:
            return None
        if self._pending >= PENDING_MAX:
            raise UNAVAILABLE("Too many passwords are waiting to be verified")
        user = users.get(name)
        stored = users.decoy(name) if user is None else user.password
        self._pending += 1
        try:
            matches = await asyncio.get_running_loop().run_in_executor(
                self._threads, stored.matches, password
            )
        finally:
            self._pending -= 1
        return user if matches else None

    def close(self) -> None:
        """End the threads and drop waiting passwords."""
        self._threads.shutdown(wait=False, cancel_futures=True)
