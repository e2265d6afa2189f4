"""Which of several nodes may not be the primary because of the address it advertises."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from election.identity import Identity

Key = TypeVar("Key", bound=Hashable)


def refusals(nodes: Mapping[Key, Identity], primary: Key | None = None) -> dict[Key, str]:
    """The reason for each of ``nodes`` that is refused; ``primary`` is the one that holds the office now.

    Of several that advertise one URL, to which writes would be handed, the one stays that advertised it
    first, whoever is primary and whoever was restarted. Where that is not known of all, the primary stays,
    and where none of them is the primary, all are refused. A loopback address among others is refused
    whoever has it: from another host it leads nowhere, or back to the one that asks.
    """
    return duplicates(nodes, primary) | _loopbacks(nodes)


def duplicates(nodes: Mapping[Key, Identity], primary: Key | None = None) -> dict[Key, str]:
    """The reason for each that advertises another's URL, except for the one that keeps it."""
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
                    f"{_call(nodes[key], key)} and {_call(nodes[other], other)}{was} both advertise {url}:"
                    " give each an address of its own with --advertise"
                )
    return reasons


def _first(nodes: Mapping[Key, Identity], keys: list[Key]) -> Key | None:
    """The one of ``keys`` that advertised its URL before all others; ``None`` if that is not known."""
    times = sorted(nodes[key].since_ms for key in keys)
    if len(times) < 2 or not times[0] or times[0] == times[1]:
        return None
    return next(key for key in keys if nodes[key].since_ms == times[0])


def _call(identity: Identity, key: object) -> str:
    return f"node {identity.node or key}"


def _another(keys: list[Key], key: Key, keeps: Key | None) -> Key | None:
    others = [other for other in keys if other != key]
    if keeps in others:
        return keeps
    return others[0] if others else None


def _loopbacks(nodes: Mapping[Key, Identity]) -> dict[Key, str]:
    """The reason for each loopback address, if there is any other kind."""
    elsewhere = next((identity for identity in nodes.values() if not identity.loopback), None)
    if elsewhere is None:
        return {}
    return {
        key: f"{identity.name} advertises a loopback address, which {elsewhere.name} cannot reach:"
        " give it an address that its peers can reach with --advertise"
        for key, identity in nodes.items()
        if identity.loopback
    }
