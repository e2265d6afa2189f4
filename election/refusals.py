"""Which of several nodes may not be the primary because of the address it advertises."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from election.identity import Identity

Key = TypeVar("Key", bound=Hashable)


def refusals(nodes: Mapping[Key, Identity], primary: Key | None = None) -> dict[Key, str]:
    """The reason for each of ``nodes`` that is refused; ``primary`` is the one that holds the office now.

    Two that advertise one URL are both refused, since writes handed to it reach either; but the primary stays
    what it is, and only the newcomer is refused. A loopback address among others is refused whoever has it:
    from another host it leads nowhere, or back to the one that asks.
    """
    return duplicates(nodes, primary) | _loopbacks(nodes)


def duplicates(nodes: Mapping[Key, Identity], primary: Key | None = None) -> dict[Key, str]:
    """The reason for each that advertises another's URL, the primary excepted."""
    sharing: dict[str, list[Key]] = defaultdict(list)
    for key, identity in nodes.items():
        sharing[identity.url].append(key)
    return {
        key: duplicate(url, _call(nodes[key], key), _call(nodes[other], other))
        for url, keys in sharing.items()
        for key in keys
        if key != primary and (other := _another(keys, key, primary)) is not None
    }


def duplicate(url: str, one: str, other: str) -> str:
    """The sentence for two nodes with one URL."""
    return f"{one} and {other} both advertise {url}: give each an address of its own with --advertise"


def _call(identity: Identity, key: object) -> str:
    return f"node {identity.node or key}"


def _another(keys: list[Key], key: Key, primary: Key | None) -> Key | None:
    others = [other for other in keys if other != key]
    if primary in others:
        return primary
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
