"""A registry in memory, which decides as a running one does: the same commands, records and fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

import orjson

from registry.domain.commands import (
    Command,
    DeleteMode,
    DeleteSubject,
    PutCensus,
    PutConfig,
    PutMode,
    PutUsage,
    Register,
)
from registry.domain.compatibility import subject_check
from registry.domain.compatibility.results import CompatibilityResult
from registry.domain.decide import Decision, decide
from registry.domain.decide.ids import Ids
from registry.domain.errors import RegistryError
from registry.domain.fold.fold import apply
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry, Record
from registry.domain.log_format.usage import USES_MAX
from registry.domain.lookup import registration, usage
from registry.domain.model import LATEST, Reference, Subject
from registry.domain.parsing import querying
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.schema_queries import Source
from registry.domain.parsing.stored import referrers
from registry.domain.policies import Policies, PolicyTable
from registry.domain.queries import entities, scope, versions
from registry.domain.queries.scope import Config, Defaults
from registry.domain.queries.versions import Registered
from registry.domain.rows.memory_views import DictView
from registry.domain.schemas.lint import Finding
from registry.domain.subject_patterns import parse_pattern

from .contents import Contents, FolderError, Usage, Version
from .steps import Place, State, order_versions

# What is compared before it is done, because somebody else may have changed it.
CONDITIONAL: Final = (Register, PutConfig, PutMode, DeleteMode, DeleteSubject)
# In front of the text in a row.
_SCHEMA: Final = b',"schema":'


class MemoryRegistry:
    """Holds the contents of a registry, and shows what commands would do to it."""

    def __init__(self, compatibility: str = "BACKWARD") -> None:
        """``compatibility``: the level where nothing is configured."""
        self._view = DictView()
        self._parser = Parser()
        self._ids = Ids(batch=1, batch_max=1)
        self._defaults = Defaults(compatibility)
        self._targets: tuple[str, ...] = ()
        self._offset = 0
        # Of the records from now on, in ms since the epoch.
        self._now = 0
        # Records below this offset are those of a registry.
        self._loaded = 0

    def require_targets(self, targets: Sequence[str]) -> None:
        """Refuse schemas that tables of these targets could not follow (``target_names``)."""
        self._targets = tuple(targets)
        table = PolicyTable((parse_pattern("*"),), targets=self._targets)
        self._defaults = replace(self._defaults, policies=Policies((table,)))

    def load(self, contents: Contents) -> None:
        """Add what a registry holds, unchanged and unchecked.

        Raises :class:`.contents.FolderError` for a config or mode that no registry should have.
        """
        for subject, version in contents:
            place = Subject.parse(subject)
            value = values.schema_value(
                place, version.number, version.schema_id, version.text,
                schema_type=version.schema_type, references=version.references,
                metadata=version.metadata, rule_set=version.rule_set, deleted=version.deleted,
            )  # fmt: skip
            self._now = _registered_at(contents.usage, subject, version)
            self._append(Entry(records.schema_key(place, version.number), value))
        if contents.usage is not None:
            self._load_usage(contents, contents.usage)
        for subject, config in contents.configs.items():
            self._load(subject, PutConfig(subject or None, dict(config)))
        for subject, mode in contents.modes.items():
            self._load(subject, PutMode(subject or None, mode, mode, force=True))
        self._loaded = self._offset

    def _load_usage(self, contents: Contents, found: Usage) -> None:
        """Add a census that finds of each version what the registry's census has found."""
        used: dict[str, set[int]] = {}
        for subject, version in contents:
            if found.states.get((subject, version.number)) == usage.UsageState.USED:
                used.setdefault(Subject.parse(subject).context, set()).add(version.schema_id)
        sources = count()
        for context, ids in used.items():
            uses = [["value", "id", each, 1, 0, -1, -1, True] for each in sorted(ids)]
            for begin in range(0, len(uses), USES_MAX):
                part = {"context": context, "uses": uses[begin : begin + USES_MAX]}
                about = {"census": found.census["id"], "state": "read", **part}
                self.submit(PutUsage(str(next(sources)), orjson.dumps(about)))
        members = {name: found.census[name] for name in ("id", "started", "ended", "complete")}
        self.submit(PutCensus(orjson.dumps({**members, "location": "", "sha256": ""})))
        self._now = _after_census(found)
        usable = found.census.get("usableUntil", found.census["ended"] + self._defaults.census_age_max_ms)
        age_max = usable - found.census["ended"]
        self._defaults = replace(self._defaults, now=found.now, census_age_max_ms=age_max)

    def _load(self, subject: str, command: Command) -> None:
        try:
            self.submit(command)
        except RegistryError as error:
            text = f"the registry has a config or mode of {subject or 'the top level'} that is unknown here"
            raise FolderError(f"{text}: {error.message}") from None

    def adopt(self, contents: Contents) -> dict[Place, int]:
        """Register the versions of a folder, compatible or not, after those that are there.

        Return the number that each of its places has here. Raises ``RegistryError`` for an invalid schema
        and :class:`.contents.FolderError` for a cycle.
        """
        numbers: dict[Place, int] = {}
        for place in order_versions(contents):
            version = self.resolve(contents, place, numbers)
            numbers[place] = self.submit(version.request(place[0], force=True))["version"]
        return numbers

    def resolve(self, contents: Contents, place: Place, numbers: Mapping[Place, int]) -> Version:
        """Return a version with the numbers that its references have in this registry.

        ``numbers``: those of the versions of ``contents`` that are here. A reference to another version of
        these stays as it is, for the registry to refuse.
        """
        subject, position = place
        version = contents.versions[subject][position]
        if not version.references:
            return version
        found = (self._resolve_reference(contents, subject, each, numbers) for each in version.references)
        return replace(version, references=tuple(found))

    def _resolve_reference(
        self, contents: Contents, user: str, reference: Reference, numbers: Mapping[Place, int]
    ) -> Reference:
        target, position = contents.target(reference, user)
        number = reference.version
        if position is not None:
            number = numbers.get((target, position), number)
        elif number == LATEST and (latest := self.latest(target)) is not None:
            number = latest.version
        return Reference(reference.name, reference.subject, number)

    def decide(self, command: Command) -> Decision:
        """Return what the registry would do. Raises ``RegistryError``."""
        saved = self._ids.save()
        try:
            return self._parser.run(
                decide(self._view, command, self._ids, self._defaults, self._parser.memory)
            )
        except BaseException:
            self._ids.restore(saved)
            raise

    def submit(self, command: Command) -> Any:
        """Do it; return the reply. Raises ``RegistryError``."""
        decision = self.decide(command)
        for each in decision.entries:
            self._append(each)
        return orjson.loads(decision.reply) if decision.reply else None

    def _append(self, entry: Entry) -> None:
        record = Record(self._offset, self._now, entry.key, entry.value)
        self._view.commit(apply(self._view, record))
        self._offset += 1

    def explain(self, command: Register) -> CompatibilityResult:
        """Return why a schema may not follow the subject's versions. Raises ``RegistryError``."""
        how: dict[str, Any] = {
            "lines": True,
            "targets": self._targets,
            "compared": self._versions_in_use(command),
        }
        view, memory = self._view, self._parser.memory
        place = scope.with_own_config(view, Subject.parse(command.subject))
        return self._parser.run(
            subject_check.explain(view, memory, place, command, None, self._defaults, **how)
        )

    def describe_basis(self, command: Register) -> str:
        """Return in words with which versions a schema is compared, if its level is for those in use."""
        basis = self._basis(command)
        return "" if basis is None else usage.describe_basis(basis, self._versions_in_use(command) or ())

    def _basis(self, command: Register) -> usage.Basis | None:
        config = scope.config_in_scope(self._view, Subject.parse(command.subject), self._defaults)
        return usage.basis_of(self._view, config, self._defaults)

    def _versions_in_use(self, command: Register) -> list[Registered] | None:
        """Return the versions in use if they are compared, instead of all."""
        basis, subject = self._basis(command), Subject.parse(command.subject)
        if basis is None or basis.census is None:
            return None
        group = scope.config_in_scope(self._view, subject, self._defaults).compatibility_group
        return list(usage.needed_versions(self._view, subject, basis.census, group))

    def lint(self, command: Register, rules: tuple[str, ...]) -> Sequence[Finding]:
        """Return what breaks rules. Raises ``RegistryError`` for an invalid schema."""
        subject = Subject.parse(command.subject)
        content = self._parser.run(registration.read(self._view, subject, command, new=True, normalize=False))
        return self._parser.run(querying.lint(content.source, rules))

    def canonical(self, subject: str, version: Version) -> str:
        """Return the text as the registry stores it. Raises ``RegistryError`` for an invalid schema."""
        return self.source(subject, version).text

    def source(self, subject: str, version: Version) -> Source:
        """Return a schema with the texts that it refers to. Raises ``RegistryError`` for an invalid one."""
        command = version.request(subject)
        steps = registration.read(self._view, Subject.parse(subject), command, new=False, normalize=False)
        return self._parser.run(steps).source

    def holds(self, found: Registered, version: Version) -> bool:
        """Return false if a registered version is another schema, not only spelled in another way."""
        text = orjson.loads(found.row.schema.removeprefix(_SCHEMA))
        if not found.row.kind.endswith(f'"schemaType":"{version.schema_type}"'.encode()):
            return False
        try:
            return text == version.text or self._normalize(found, replace(version, text=text)) == (
                self._normalize(found, version)
            )
        except RegistryError:
            return True  # Schemas that are not valid here cannot be compared.

    def _normalize(self, found: Registered, version: Version) -> str:
        command = version.request(found.subject.qualified)
        steps = registration.read(self._view, found.subject, command, new=False, normalize=True)
        return self._parser.run(steps).text

    def version(self, subject: str, number: int) -> Registered | None:
        """Return a version, soft-deleted or not."""
        return versions.version_numbered(self._view, Subject.parse(subject), number)

    def referrers(self, subject: str) -> list[str]:
        """Return the live versions of other subjects that refer to a subject, as texts."""
        place = Subject.parse(subject)
        found = {
            f"{each.subject.qualified} version {each.version}": None
            for version in versions.versions(self._view, place)
            for each in referrers(self._view, place, version.version, deleted=False)
            if each.subject != place
        }
        return list(found)

    def latest(self, subject: str) -> Registered | None:
        """Return the latest version that is not soft-deleted."""
        return versions.latest(self._view, Subject.parse(subject))

    def config(self, subject: str) -> Config | None:
        """Return the config of exactly this scope."""
        return scope.stored_config(self._view, Subject.parse(subject))

    def mode(self, subject: str) -> str | None:
        """Return the mode of exactly this scope."""
        return scope.stored_mode(self._view, Subject.parse(subject))

    def mode_in_force(self, subject: str) -> str:
        """Return the mode that applies to a subject."""
        return scope.mode_in_scope(self._view, Subject.parse(subject))

    def state(self, command: Command) -> State:
        """Return what a command of :data:`CONDITIONAL` changes, as far as the registry shows it alike.

        A version that only this registry has taken has another id there.
        """
        place = Subject.parse(getattr(command, "subject", None) or "")
        if isinstance(command, PutConfig):
            config = self.config(place.qualified)
            found = scope.exact_config(self._view, place, self._defaults)
            shown: dict[str, Any] = orjson.loads(entities.config_entity(found)) if found is not None else {}
            return None if found is None else shown if config is not None else {}
        if isinstance(command, PutMode | DeleteMode):
            mode = scope.exact_mode(self._view, place)
            return None if mode is None else {"mode": mode}
        latest = versions.latest(self._view, place)
        if latest is None:
            return None
        loaded = latest.row.offset < self._loaded
        return {"version": latest.version, **({"id": latest.row.schema_id} if loaded else {})}

    def rows(self) -> dict[bytes, bytes]:
        """Return all rows."""
        return dict(self._view.rows())


def _registered_at(found: Usage | None, subject: str, version: Version) -> int:
    """Return a time for the record of a version, because a census says nothing of later versions."""
    if found is None or found.states.get((subject, version.number)) != usage.UsageState.UNKNOWN:
        return 0
    return _after_census(found)


def _after_census(found: Usage) -> int:
    return max(found.now, int(found.census["started"]))
