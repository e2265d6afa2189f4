"""Reasons not to elect a node: the address it advertises is ambiguous or cannot be reached."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from election.contract import Reachable
from election.identity import Identity

PROBE_TIMEOUT_S = 1.0

Key = TypeVar("Key", bound=Hashable)


def rejections(nodes: Mapping[Key, Identity], primary: Key | None = None) -> dict[Key, str]:
    """Return the reason for each of ``nodes`` that is rejected; ``primary`` is the current one.

    If several nodes advertise one URL, to which writes would be forwarded, the one that advertised it first
    stays, regardless of which is the primary or was restarted. If that is not known of all of them, the
    primary stays; if none is the primary, all are rejected. A loopback address is rejected if any node
    advertises another kind: from other hosts it leads nowhere, or back to the host that uses it.
    """
    return duplicates(nodes, primary) | _loopbacks(nodes)


def duplicates(nodes: Mapping[Key, Identity], primary: Key | None = None) -> dict[Key, str]:
    """Return the reason for each node that advertises another's URL, except for the one that keeps it."""
    sharing: dict[str, list[Key]] = defaultdict(list)
    for key, identity in nodes.items():
        sharing[identity.url].append(key)
    reasons: dict[Key, str] = {}
    for url, keys in sharing.items():
        first = _first(nodes, keys)
        keeps = primary if first is None else first
        for key in keys:
            if key != keeps and (other := _another(keys, key, keeps)) is not None:
                was = "" if first is None else " (which had it first)"
                reasons[key] = (
                    f"{_name(nodes[key], key)} and {_name(nodes[other], other)}{was} both advertise {url}:"
                    " give each an address of its own with --advertise"
                )
    return reasons


def _first(nodes: Mapping[Key, Identity], keys: list[Key]) -> Key | None:
    """Return the one of ``keys`` that advertised its URL first; ``None`` if that is unknown."""
    times = sorted(nodes[key].since_ms for key in keys)
    if len(times) < 2 or not times[0] or times[0] == times[1]:
        return None
    return next(key for key in keys if nodes[key].since_ms == times[0])


def _name(identity: Identity, key: object) -> str:
    return f"node {identity.node or key}"


def _another(keys: list[Key], key: Key, keeps: Key | None) -> Key | None:
    others = [other for other in keys if other != key]
    if keeps in others:
        return keeps
    return others[0] if others else None


def _loopbacks(nodes: Mapping[Key, Identity]) -> dict[Key, str]:
    """Return the reason for each loopback address, if any node advertises another kind."""
    elsewhere = next((identity for identity in nodes.values() if not identity.loopback), None)
    if elsewhere is None:
        return {}
    return {
        key: f"{identity.name} advertises a loopback address, which {elsewhere.name} cannot reach:"
        " give it an address that its peers can reach with --advertise"
        for key, identity in nodes.items()
        if identity.loopback
    }


async def unreachable(reachable: Reachable | None, identity: Identity) -> str:
    """Return why ``identity`` cannot be reached; "" if it can, or if there is no probe."""
    if reachable is None:
        return ""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            return await reachable(identity)
    except TimeoutError:
        return f"{identity.url} did not answer in {PROBE_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{identity.url} cannot be reached: {error}"
