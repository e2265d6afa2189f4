"""Sentences of plans about clients that still ask for versions that are to be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from registry.cli.client.resources import ErrorAnswer, subject_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.cli.client.client import RegistryClient

# Askers that a sentence names; those that asked last.
_NAMED = 3
# The user agent of this command line, which asks for what it plans to delete.
_OWN_AGENT = "registrar/"


class AskedVersion(TypedDict):
    """The requests of one asker for one version; ``None``: the latest, or one sent as a text."""

    version: int | None
    requests: int
    first: str
    last: str


class Asker(TypedDict):
    """A client of the registry, and what it has asked for."""

    principal: str
    address: str
    agent: str
    last: str
    versions: list[AskedVersion]


class Askers(TypedDict):
    """The answer of ``/usage/subjects/{subject}/askers``."""

    since: str | None
    askers: list[Asker]
    askerCount: int
    other: int
    missingCount: int


def find_askers(registry: RegistryClient, subject: str) -> Askers | None:
    """Return who asks for a subject; ``None`` if the registry does not know, or does not say."""
    try:
        found: Askers = registry.get(f"/usage{subject_path(subject)}/askers", Askers)
    except ErrorAnswer as error:
        if error.status in (403, 404, 405, 503):  # of other registries, and of nodes that do not answer
            return None
        raise
    return None if found["since"] is None else found


def describe_askers(found: Askers, version: int | None = None) -> str:
    """Return who has asked for a version, or for any, as the rest of a sentence; empty if nobody has."""
    last = sorted(_last_asked(found, version), reverse=True)
    if not last:
        if not found["askers"] and found["askerCount"]:
            return f"{found['askerCount']} clients have asked for the subject since {found['since']}"
        return ""
    shown = ", ".join(f"{name} (last on {day})" for day, name in last[:_NAMED])
    more = f" and {len(last) - _NAMED} more" if len(last) > _NAMED else ""
    return f"asked for by {shown}{more}"


def _last_asked(found: Askers, version: int | None) -> Iterator[tuple[str, str]]:
    for each in found["askers"]:
        days = [asked["last"] for asked in each["versions"] if version in (None, asked["version"])]
        if days and not each["agent"].startswith(_OWN_AGENT):
            yield max(days), " ".join(filter(None, (each["principal"] or each["address"], each["agent"])))
