"""Sentences of plans about clients that still ask for versions that are to be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from registry.cli.client.resources import ErrorAnswer, subject_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    kind: str
    address: str
    agent: str
    last: str
    versions: list[AskedVersion]


class Askers(TypedDict):
    """The answer of ``/usage/subjects/{subject}/askers``."""

    since: str | None
    last: str | None
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


def describe_version_askers(registry: RegistryClient, subject: str, version: int) -> str:
    """Return who has asked for a version, or for none in particular, as a sentence without an end."""
    found = find_askers(registry, subject)
    if found is None:
        return "the registry does not say who has asked for it"
    nobody = f"nobody has asked for it since {found['since']}"
    return describe_askers(found, version, unnamed=True) or nobody


def describe_askers(found: Askers, version: int | None = None, *, unnamed: bool = False) -> str:
    """Return who has asked for a version, or for any, as the rest of a sentence; empty if nobody has.

    ``unnamed``: also who has asked for no version in particular, such as those who register texts.
    """
    if not found["askers"] and found["askerCount"]:
        return f"{found['askerCount']} clients have asked for the subject since {found['since']}"
    asked = _join_names(found, lambda each: version in (None, each))
    others = _join_names(found, lambda each: each is None) if unnamed and version is not None else ""
    named = asked and f"asked for by {asked}"
    return "; ".join(filter(None, (named, others and f"asked for without a version by {others}")))


def _join_names(found: Askers, counts: Callable[[int | None], bool]) -> str:
    """Return the clients that asked last for versions that count, with the days."""
    last = sorted(_last_asked(found, counts), reverse=True)
    shown = ", ".join(f"{name} (last on {day})" for day, name in last[:_NAMED])
    return f"{shown} and {len(last) - _NAMED} more" if len(last) > _NAMED else shown


def _last_asked(found: Askers, counts: Callable[[int | None], bool]) -> Iterator[tuple[str, str]]:
    for each in found["askers"]:
        days = [asked["last"] for asked in each["versions"] if counts(asked["version"])]
        if days and not each["agent"].startswith(_OWN_AGENT):
            yield max(days), " ".join(filter(None, (who(each), each["agent"])))


def who(asker: Asker) -> str:
    """Return the principal of a client, as rules name it, or its address."""
    kind = f"{asker['kind']}:" if asker.get("kind") else ""
    return f"{kind}{asker['principal']}" if asker["principal"] else asker["address"]
