"""The consequences of a deletion, found out by reading only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .client import listed_versions
from .resources import LATEST, ErrorAnswer, Mode, Place, Version, VersionName, scope_path, version_path

if TYPE_CHECKING:
    from .client import RegistryClient


class DoomedVersion(NamedTuple):
    """A version that is to be deleted."""

    version: int
    id: int
    deleted: bool  # softly, before
    referenced_by: list[int]  # ids of schemas that refer to it, which forbid it
    id_stays: bool  # readable by its id afterwards


class DeletionPlan(NamedTuple):
    """The consequences of a deletion."""

    subject: str
    whole: bool  # the subject, instead of some version
    permanent: bool
    versions: list[DoomedVersion]
    obstacles: list[str]  # sentences; empty if nothing forbids it
    warning: str = ""  # a sentence about what could not be found out

    def as_json(self) -> dict[str, Any]:
        """Return the plan as the verb prints it."""
        return {
            "subject": self.subject,
            "permanent": self.permanent,
            "versions": [
                {
                    "version": each.version,
                    "id": each.id,
                    "softDeleted": each.deleted,
                    "referencedBy": each.referenced_by,
                    "idStaysReadable": each.id_stays,
                }
                for each in self.versions
            ],
            "obstacles": self.obstacles,
        }


def plan_deletion(registry: RegistryClient, name: VersionName, *, permanent: bool) -> DeletionPlan:
    """Find out what deleting a version or a whole subject would do.

    Raises :class:`.resources.RegistryError`.
    """
    known = listed_versions(registry, name.subject, deleted=True)
    if name.version:
        found = registry.get(
            version_path(name.subject, name.version), Version, deleted=name.version != LATEST
        )
        wanted = [found["version"]]
    else:
        wanted = [number for number, gone in known.items() if permanent or not gone]
    doomed = [
        _examine_version(
            registry, name.subject, number, known, wanted, permanent=permanent, whole=not name.version
        )
        for number in wanted
    ]
    obstacles = [
        f"version {each.version} is referred to by the schemas with the ids "
        f"{', '.join(map(str, each.referenced_by))}: delete those first"
        for each in doomed
        if each.referenced_by
    ]
    obstacles += [
        f"version {each.version} is soft-deleted already: use --permanent to remove it"
        for each in doomed
        if each.deleted and not permanent
    ]
    if doomed:
        path = version_path(name.subject, wanted[0])
        real = registry.get(path, Version, deleted=True)["subject"]
        if real != name.subject.removeprefix(":.:"):
            obstacles.append(f"{name.subject} is an alias of {real}: delete that subject instead")
    else:
        obstacles.append("all versions are soft-deleted already: use --permanent to remove them")
    mode, warning = _mode(registry, name.subject)
    if mode in ("READONLY", "READONLY_OVERRIDE"):
        obstacles.append(f"the mode of {name.subject} is {mode}, in which nothing is deleted")
    return DeletionPlan(name.subject, not name.version, permanent, doomed, obstacles, warning)


def _mode(registry: RegistryClient, subject: str) -> tuple[str, str]:
    """Return the mode in force, or why it is not known."""
    try:
        return registry.get(scope_path("mode", subject), Mode, defaultToGlobal=True)["mode"], ""
    except ErrorAnswer as error:
        if error.status in (403, 404, 405):  # of other registries, and where few may see it
            return "", f"the registry does not show its mode, which may forbid the deletion: {error}"
        raise


def _examine_version(
    registry: RegistryClient, subject: str, number: int, known: dict[int, bool], wanted: list[int], *,
    permanent: bool, whole: bool,
) -> DoomedVersion:  # fmt: skip
    path = version_path(subject, number)
    schema_id = registry.get(path, Version, deleted=True)["id"]
    try:
        using = set(registry.get(f"{path}/referencedby", list[int], deleted=permanent))
    except ErrorAnswer as error:
        if error.status != 404:
            raise
        using = set()  # Confluent's finds no references of a soft-deleted version
    holders = _holders(registry, schema_id, subject) if permanent else []
    if whole and using:
        # References from within the subject go with it.
        own = {registry.get(version_path(subject, each), Version, deleted=True)["id"] for each in wanted}
        using -= own
    others = [
        each for each in holders if each != (subject, number) and each not in {(subject, n) for n in wanted}
    ]
    return DoomedVersion(
        number, schema_id, known.get(number, False), sorted(using), not permanent or bool(others)
    )


def _holders(registry: RegistryClient, schema_id: int, subject: str) -> list[tuple[str, int]]:
    """Return the versions with an id."""
    found = registry.pages(f"/schemas/ids/{schema_id}/versions", Place, subject=subject, deleted=True)
    return [(each["subject"], each["version"]) for each in found]
