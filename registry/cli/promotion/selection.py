"""The parts of registries that plans are about: what is wanted, and what is there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from registry.cli.folder.contents import Contents
from registry.cli.folder.plan import doomed
from registry.domain.model import ALL_CONTEXTS, Subject
from registry.domain.subject_patterns import Pattern

from .reading import RegistryReader


def present_for(
    reader: RegistryReader,
    wanted: Contents,
    owned: Sequence[Pattern] = (),
    *,
    about: Sequence[Pattern] = (),
    keep_ids: bool = False,
) -> Contents:
    """Return the part of a registry that a plan for ``wanted`` depends on.

    ``owned``: patterns of subjects that it may delete. ``about``: those that cover most of ``wanted``.
    ``keep_ids``: with the versions that have the ids.
    """
    reader.subjects(about, deleted=True)
    for pattern in dict.fromkeys((*about, *owned)):
        reader.read_ahead(pattern, deleted=True)
    subjects = {*wanted.versions, *wanted.configs, *wanted.modes, *reader.subjects(owned)}
    subjects = {each for each in subjects if each and not Subject.parse(each).is_context}
    for user, version in wanted:
        subjects |= {wanted.target(each, user)[0] for each in version.references}
    places = [place for each in sorted(subjects) for place in reader.all_places(each)]
    for subject in doomed(wanted, reader.subjects(owned), owned):
        # Also what no pattern covers may forbid a deletion.
        places += [place for place in reader.referrers(subject) if place not in places]
    if keep_ids:
        places += _holders(reader, wanted, set(places))
    found = reader.contents(places)
    configured = reader.configured(_scopes(subjects, wanted))
    return Contents(found.versions, configured.configs, configured.modes)


def _holders(
    reader: RegistryReader, wanted: Contents, known: Collection[tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    ids = {(Subject.parse(subject).context, version.schema_id) for subject, version in wanted}
    held = {
        (Subject.parse(place[0]).context, version.schema_id)
        for place in known
        if (version := reader.version(*place)) is not None
    }
    for context, schema_id in sorted(ids - held):
        yield from reader.holders(context, schema_id)


def _scopes(subjects: Iterable[str], wanted: Contents) -> list[str]:
    """Return the scopes that decide over subjects: their own, their contexts', the top level, and all."""
    named = {*subjects, *wanted.configs, *wanted.modes}
    contexts = {Subject(Subject.parse(each).context, "").qualified for each in named}
    everywhere = Subject(ALL_CONTEXTS, "").qualified
    return sorted(named | contexts | {"", everywhere})


def wanted_of(
    reader: RegistryReader, patterns: Sequence[Pattern], *, latest: bool, configs: bool, deleted: bool
) -> Contents:
    """Return the subjects that patterns cover, with all versions that they refer to.

    ``latest``: only the latest version of each. ``configs``: with the configs and modes that these patterns
    cover. ``deleted``: with soft-deleted versions.
    """
    subjects = reader.subjects(patterns, deleted=deleted)
    for pattern in patterns:
        reader.read_ahead(pattern, deleted=deleted, latest=latest)
    places = [
        place
        for each in subjects
        for place in (reader.latest_place(each) if latest else reader.all_places(each, deleted=deleted))
    ]
    found = reader.contents(places)
    if not configs:
        return found
    contexts = {Subject(Subject.parse(each).context, "").qualified for each in subjects}
    covered = [each for each in contexts if any(one.covers(Subject.parse(each)) for one in patterns)]
    configured = reader.configured(sorted({*subjects, *covered}))
    modes = {scope: mode for scope, mode in configured.modes.items() if scope or mode != "READWRITE"}
    return Contents(found.versions, configured.configs, modes)
