"""Verdicts on schema files without a registry: against earlier files, and by lint rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from registry.domain.commands import PutConfig
from registry.domain.errors import RegistryError
from registry.domain.model import Subject
from registry.domain.policies import Policies
from registry.domain.principal import ANONYMOUS
from registry.domain.schemas.lint import Finding
from registry.domain.subject_patterns import Pattern

from .contents import Contents, FolderError, Version
from .memory_registry import MemoryRegistry
from .plan import plan_for, subjects_to_prune
from .steps import REFUSED, Outcome, Plan, order_versions

# Members of a config that say the level.
_LEVEL: Final = ("compatibilityLevel", "compatibilityUsed")
# Rules that a folder is warned about unless it names others.
WARNINGS: Final = ("pascal_case_types", "upper_case_symbols", "docs", "namespace")


class LintRules(NamedTuple):
    """Names of rules: broken ones are errors, or only reported."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Linted:
    """The findings in one version."""

    subject: str
    version: Version
    errors: Sequence[Finding] = ()
    warnings: Sequence[Finding] = ()
    # Reason why the schema is not valid.
    invalid: str = ""

    @property
    def is_refused(self) -> bool:
        """True if the schema is refused."""
        return bool(self.errors or self.invalid)


def check_files(
    wanted: Contents,
    earlier: Sequence[Contents],
    level: str | None = None,
    owned: Sequence[Pattern] = (),
    targets: Sequence[str] = (),
) -> Plan:
    """Check versions against those of ``earlier`` folders, which follow each other.

    ``level``: instead of the levels of ``wanted``. ``owned``: patterns of the subjects that are deleted if
    ``wanted`` lacks them. ``targets``: those whose
    tables must be able to follow. References must lead to schemas of ``wanted``. Raises
    :class:`.contents.FolderError` for earlier schemas that are not valid.
    """
    registry = MemoryRegistry()
    for contents in earlier:
        try:
            registry.adopt(contents)
        except RegistryError as error:
            raise FolderError(f"an earlier schema is not valid: {error.message}") from None
    last = earlier[-1] if earlier else Contents()
    found = check(wanted, registry, level, subjects_to_prune(wanted, last.versions, owned), targets)
    firsts: dict[str, str] = {}
    return replace(found, outcomes=[_complete(wanted, each, firsts) for each in found.outcomes])


def check(
    wanted: Contents,
    registry: MemoryRegistry,
    level: str | None = None,
    prune: Sequence[str] = (),
    targets: Sequence[str] = (),
) -> Plan:
    """Check versions, and the deletion of the subjects ``prune``, against what a registry holds.

    ``level``: instead of those that are in force. ``targets``: those whose tables must be able to follow.
    """
    if targets:
        registry.require_targets(targets)
    if level is None:
        return plan_for(Contents(wanted.versions, wanted.configs), registry, prune=prune)
    for subject in wanted.versions:
        registry.submit(PutConfig(subject, {"compatibilityLevel": level}))
    configs = {
        scope: {name: value for name, value in config.items() if name not in _LEVEL}
        for scope, config in wanted.configs.items()
    }
    return plan_for(Contents(wanted.versions, configs), registry, prune=prune)


def _complete(wanted: Contents, outcome: Outcome, firsts: dict[str, str]) -> Outcome:
    """Return the outcome, or a refusal if the version refers to a schema that was removed.

    ``firsts``: for each schema that was removed, the first subject that refers to it.
    """
    for reference in outcome.version.references:
        target, position = wanted.target(reference, outcome.subject)
        if position is None and outcome.verdict not in REFUSED:
            text = f"refers to {target}, which is not among these files"
            first = firsts.setdefault(target, outcome.subject)
            because = first if first != outcome.subject else ""
            return Outcome(outcome.subject, outcome.version, "rejected", message=text, because=because)
    return outcome


def lint(wanted: Contents, rules: LintRules | Policies, registry: MemoryRegistry) -> list[Linted]:
    """Return what is found in the last version of each subject.

    ``rules``: the same for all subjects, or those that the policies of a registry name. ``registry`` holds
    what is referred to but not wanted. Raises :class:`.contents.FolderError` for a cycle.
    """
    numbers: dict[tuple[str, int], int] = {}
    found: list[Linted] = []
    for place in order_versions(wanted):
        subject, position = place
        version = wanted.versions[subject][position]
        command = registry.resolve(wanted, place, numbers).request(subject, force=True)
        try:
            numbers[place] = registry.submit(command)["version"]
            if position != len(wanted.versions[subject]) - 1:
                continue
            errors, warnings = _rules_for(subject, rules)
            found.append(
                Linted(subject, version, registry.lint(command, errors), registry.lint(command, warnings))
            )
        except RegistryError as error:
            text = "; ".join([error.message, *version.lacking(error.message).values()])
            found.append(Linted(subject, version, invalid=text))
    return found


def _rules_for(subject: str, rules: LintRules | Policies) -> LintRules:
    if isinstance(rules, LintRules):
        return rules
    policy = rules.policy(Subject.parse(subject), ANONYMOUS)
    return LintRules(policy.lint_errors, policy.lint_warnings)
