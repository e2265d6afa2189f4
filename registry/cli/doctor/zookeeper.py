"""Examination of ZooKeeper, if it elects the primary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from registry.base.config.settings import Settings

from .findings import Finding, error, fine

_TIMEOUT_S = 5.0


async def examine_zookeeper(settings: Settings) -> AsyncIterator[Finding]:
    """Yield what is found; nothing is created."""
    from election.zookeeper.connection import Connection, ZooKeeperError  # noqa: PLC0415 (imports kazoo only if needed)
    from election.zookeeper.tls import Tls, unreachable  # noqa: PLC0415 - as above

    files = settings.zookeeper_tls_ca, settings.zookeeper_tls_certificate, settings.zookeeper_tls_key
    tls = Tls(*files) if settings.zookeeper_tls else None
    changed = asyncio.Event()
    connection = Connection(
        settings.zookeeper_hosts, settings.zookeeper_chroot, settings.session_timeout_s,
        settings.zookeeper_auth, changed.set, tls,
    )  # fmt: skip
    connection.start()
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            while not connection.connected:
                await changed.wait()
                changed.clear()
        root = "" if settings.zookeeper_chroot.strip("/") else "/"
        exists = await connection.get(root) is not None
        if exists:
            await connection.children(root)
        yield fine("zookeeper", f"it answers{'' if exists else '; the nodes create the path that is named'}")
    except TimeoutError:
        yield error(
            "zookeeper", await unreachable(settings.zookeeper_hosts, tls), "check the setting zookeeper"
        )
    except ZooKeeperError as problem:
        yield error("zookeeper", str(problem))
    finally:
        await connection.close()
