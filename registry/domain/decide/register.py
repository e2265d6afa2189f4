"""Decisions on registrations: the steps of Confluent 8.x, in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.compatibility import checks, verdicts
from registry.domain.compatibility.results import Incompatible, Reason
from registry.domain.errors import RegistryError
from registry.domain.log_format.usage import Census
from registry.domain.lookup import find, registration, usage
from registry.domain.lookup.equivalents import candidates
from registry.domain.lookup.metadata import (
    VERSION_PROPERTY,
    merge_inherited,
    property_of,
    tidy_metadata,
    tidy_rules,
    with_version,
)
from registry.domain.lookup.registration import Content
from registry.domain.model import VERSION_MAX, Metadata, RuleSet, Subject
from registry.domain.parsing import querying
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.stored import format_version
from registry.domain.policies import Policy
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import (
    READ_ONLY,
    TAKES_IDS,
    Config,
    ConfiguredSubject,
    Defaults,
    context_label,
    effective_config,
    mode_in_scope,
    validates_fields,
    validates_new_schemas,
)
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import View

from . import version_records
from .association_checks import check_not_strong
from .decision import Decision, check_subject, check_uses, not_permitted
from .ids import Grant, Ids
from .version_records import with_tags


def register(
    view: View,
    place: ConfiguredSubject,
    command: Register,
    ids: Ids,
    defaults: Defaults,
    memory: SchemaMemory,
    *,
    force_new: bool = False,
) -> Querying[Decision]:
    """Register a schema under the subject of ``place``, or find it there.

    Raises 42210, 42208, 503, 42201, 42205, 40901, 40382, 40982, in this order.

    ``force_new``: register it even if it exists, as when tags change.
    """
    if command.rule_set is not None or command.metadata is not None:
        rules, meta = tidy_rules(command.rule_set), tidy_metadata(command.metadata)
        command = msgspec.structs.replace(command, rule_set=rules, metadata=meta)
    subject = place.subject
    check_subject(subject, command.subject, reject_empty=defaults.reject_empty_subject)
    if defaults.checked is not None:
        check_uses(view, subject, command, defaults.checked)
    if command.changes_tags:
        command, force_new = (yield from with_tags(view, subject, command)), True
    config = effective_config(view, place, defaults)
    mode, newest = mode_in_scope(view, subject), versions.newest(view, subject)
    takes_ids = mode in TAKES_IDS
    step = _Registration(view, memory, defaults, subject, command, config, mode, takes_ids, newest)
    wanted, refusal = yield from step.read()
    reply = None if force_new else (yield from step.shortcut(wanted))
    if reply is not None:
        return Decision([], reply)
    step.check_mode()
    if refusal is not None:
        raise refusal
    content = yield from step.complete(wanted)
    sought = content is wanted and not config.adds and command.schema_id < 0 and not force_new
    return (yield from step.decide(content, ids, sought=sought))


class _Registration(NamedTuple):
    """A registration while it is being decided."""

    view: View
    memory: SchemaMemory
    defaults: Defaults
    subject: Subject
    command: Register
    config: Config
    mode: str
    # True if clients bring ids, and nothing is validated or compared.
    takes_ids: bool
    # The highest version, soft-deleted or not. Without one there is nothing to compare under the subject.
    newest: Registered | None

    def read(self) -> Querying[tuple[Content | None, RegistryError | None]]:
        """Return the content that was sent, ``None`` for a blank text, and why it is refused in any mode."""
        if not self.command.schema.strip():
            return None, None
        new = self.command.schema_id < 0 and not self.takes_ids
        strict = new and validates_new_schemas(self.config, self.defaults)
        try:
            fields = validates_fields(self.config, self.defaults)
            return (yield from self._read(new=strict, fields=fields)), None
        except RegistryError as error:
            if self.config.adds:  # no short cut, which alone reads the text before the mode is checked
                return None, error
            if not strict:
                raise
            return (yield from self._read(new=False)), error

    def _read(self, *, new: bool, fields: bool = False) -> Querying[Content]:
        normalize = not self.takes_ids and bool(self.command.normalize or self.config.normalize)
        fields = fields and not self.takes_ids
        return registration.read(
            self.view,
            self.subject,
            self.command,
            new=new,
            normalize=normalize,
            fields=fields,
            strict=self.defaults.strict_references,
        )

    def shortcut(self, wanted: Content | None) -> Querying[bytes | None]:
        """Return the reply if the schema exists already, whatever the mode."""
        if wanted is None or self.config.adds or self.newest is None:
            return None
        return (yield from find.shortcut(self.view, self.memory, self.subject, wanted, self.command))

    def check_mode(self) -> None:
        """Refuse what the mode does not permit (42205)."""
        if self.mode in READ_ONLY:
            raise not_permitted(self.subject, self.subject.qualified, "read-only")
        if self.command.schema_id >= 0 and not self.takes_ids:
            raise not_permitted(self.subject, self.subject.qualified, "import")
        if self.command.schema_id < 0 and self.takes_ids:
            raise not_permitted(self.subject, self.subject.qualified, "read-write")

    def complete(self, wanted: Content | None) -> Querying[Content]:
        """Return the content with what it inherits from the latest version and the config. Raises 42201."""
        known = self.newest is not None and not self.takes_ids
        latest = versions.latest(self.view, self.subject) if known else None
        if wanted is None:
            if latest is None:
                raise errors.INVALID_SCHEMA("Empty schema")
            request = find.of_latest(self.command, latest)
            wanted = yield from registration.read(
                self.view, self.subject, request, new=False, normalize=False
            )
        if self.takes_ids or (
            latest is None
            and wanted.metadata is None
            and wanted.rules is None
            and self.command.version == 0
            and not self.config.adds
        ):
            return wanted
        earlier: tuple[Metadata | None, RuleSet | None] = (None, None)
        if latest is not None:
            earlier = (entities.metadata(latest.row), entities.rule_set(latest.row))
        meta, rules = merge_inherited(self.config, (wanted.metadata, wanted.rules), earlier)
        if self.command.version != 0 or property_of(meta, VERSION_PROPERTY) is not None:
            meta = with_version(meta, self.next_version())
        return wanted.with_metadata(meta, rules)

    def next_version(self) -> int:
        """Return the number above the highest version, counting soft-deleted ones."""
        return 1 if self.newest is None else self.newest.version + 1

    def decide(self, content: Content, ids: Ids, *, sought: bool) -> Querying[Decision]:
        """Return its records, or none if the version exists; ``sought``: the fast path did not find it."""
        if self.defaults.association_rules.strong_excludes_references:
            check_not_strong(self.view, self.subject, content.references)
        own = find.of_same_content(self.view, self.subject, content) if self.newest is not None else []
        schema_id = self._id_of_content(content, own)
        found = None if sought else (yield from self._find_existing(content, own, schema_id))
        if found is not None:
            row = yield from format_version(self.view, found, self.command.format)
            return Decision([], entities.registration_response(row, found.version))
        if not self.takes_ids:  # imports have no policy, and nothing is compared
            policy = self.defaults.policies.policy(self.subject, self.defaults.principal, self.defaults.kind)
            yield from self._check_policy(content, policy)
            yield from self._check_compatible(content, policy)
        version = self._version()
        grant = self._grant(content, ids, schema_id)
        new = version_records.version_entries(self.view, self.subject, content, own, grant.schema_id, version)
        reply = yield from version_records.reply(content, grant.schema_id, version, self.command.format)
        ids.take(grant)
        summary = version_records.summary(grant.schema_id, version)
        return Decision([*grant.entries, *new], reply, summary)

    def _id_of_content(self, content: Content, own: list[Registered]) -> int:
        """Return the requested id, or that of the same content in the context; -1 for a new one.

        An id that stands for another content, or will, is passed over. If only other contents have the guid,
        the id is one of theirs, which is refused later.
        """
        same = [
            each
            for each in (*own, *versions.of_content(self.view, self.subject.context, content.md5))
            if entities.schema_type(each.row) == content.schema_type
        ]
        wanted = self.command.schema_id
        if not same or wanted >= 0:
            return wanted
        same = [each for each in same if content.is_that_of(each.row)] or same
        newest_first = sorted(same, key=lambda each: each.row.offset, reverse=True)
        lasting = (
            each.row.schema_id
            for each in newest_first
            if versions.owns_id(self.view, each, superseded=each.row.deleted and each.subject == self.subject)
        )
        return next(lasting, -1)

    def _find_existing(
        self, content: Content, own: list[Registered], schema_id: int
    ) -> Querying[Registered | None]:
        if self.command.version != 0 or self.newest is None:
            return None
        for each in reversed(own):
            if not each.row.deleted and each.row.schema_id == schema_id:
                return each
        for each in (yield from candidates(self.view, self.memory, self.subject, content)):
            wanted = schema_id == each.row.schema_id or (schema_id < 0 and versions.owns_id(self.view, each))
            if wanted and (yield from find.equivalent(self.view, content, each)):
                return each
        return None

    def _check_policy(self, content: Content, policy: Policy) -> Querying[None]:
        """Refuse what the subject's policy forbids (40380, 40381, 42280, 42281)."""
        subject, principal = self.subject, self.defaults.principal
        if not policy.may_register:
            raise errors.REGISTRATION_DENIED(subject.qualified, principal)
        if not policy.may_create and self.newest is None:
            raise errors.CREATION_DENIED(subject.qualified, principal)
        if policy.versions_max and self._has_versions(policy.versions_max):
            raise errors.VERSIONS_LIMIT(subject.qualified, policy.versions_max)
        if policy.lint_errors:
            findings = yield from querying.lint(content.source, policy.lint_errors)
            if findings:
                raise errors.LINT_BROKEN(subject.qualified, "; ".join(map(str, findings)))

    def _has_versions(self, most: int) -> bool:
        """Return true if the subject has ``most`` versions that are not deleted, or more."""
        if self.newest is None or self.newest.version < most:
            return False
        live = versions.versions(self.view, self.subject)
        return next(islice(live, most - 1, None), None) is not None

    def _check_compatible(self, content: Content, policy: Policy) -> Querying[None]:
        targets = policy.targets
        if self.command.force:
            return
        if self.newest is None and not (
            targets or self.config.compatibility_policy or validates_fields(self.config, self.defaults)
        ):
            return  # there is nothing to compare it with
        earlier: Iterable[Registered] = ()
        basis = usage.basis_of(self.view, self.config, self.defaults)
        if self.newest is not None:
            passes = verdicts.known_to_pass(self.memory, content, self.config, self.defaults, targets)
            if basis is not None and basis.census is not None:
                earlier = self._versions_in_use(basis.census, passes)
            else:
                earlier = versions.versions(self.view, self.subject, newest_first=True, leave_out=passes)
        reasons = yield from checks.check(
            self.view, self.memory, content, earlier, self.config, self.defaults, targets
        )
        if reasons:
            if basis is not None:
                census = basis.census
                compared = self._versions_in_use(census) if census else ()
                reasons.append(Reason(usage.describe_basis(basis, compared)))
            raise Incompatible(errors.INCOMPATIBLE, reasons, self.subject.qualified)

    def _versions_in_use(
        self, census: Census, leave_out: Callable[[bytes], bool] | None = None
    ) -> Iterator[Registered]:
        group = self.config.compatibility_group
        return usage.needed_versions(self.view, self.subject, census, group, leave_out)

    def _version(self) -> int:
        following, wanted = self.next_version(), self.command.version
        if wanted > 0 and self.takes_ids:
            return wanted
        if wanted > 0 and wanted != following:
            raise errors.INVALID_SCHEMA("Version is not one more than previous version")
        if following > VERSION_MAX:
            raise errors.INVALID_SCHEMA(f"Subject '{self.subject.qualified}' has the highest version already")
        return following

    def _grant(self, content: Content, ids: Ids, schema_id: int) -> Grant:
        context = self.subject.context
        if schema_id < 0:
            return ids.grant(self.view, context)
        bound = versions.by_id(self.view, context, schema_id)
        if bound is not None and not content.is_that_of(bound.row):
            label = context_label(self.subject)
            refusal = f"Overwrite new schema with id {schema_id} in context {label} is not permitted."
            raise errors.NOT_PERMITTED(refusal)
        return ids.import_id(self.view, context, schema_id, far=self.command.far_ids)
