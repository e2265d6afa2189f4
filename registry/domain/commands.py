"""Commands, which ask for writes, and their outcomes: plain data that readers and nodes exchange."""

from __future__ import annotations

from typing import Any

import msgspec

from .errors import Passage, RegistryError
from .model import DEFAULT_TYPE, Metadata, Reference, RuleSet


class _Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to write.

    Nodes of other versions read the tags and the names of members, so these must never change, even if a
    class is renamed (``tests/unit/forwarding/test_wire_tags.py`` holds the bytes).
    """


class TagsOf(msgspec.Struct, frozen=True, array_like=True):
    """The tags of one entity of a schema; see :class:`.schemas.Entity`."""

    path: str
    kind: str
    tags: list[str]


class Register(_Command, frozen=True, tag="Register"):
    """Register a schema under a subject."""

    # Qualified name as the client sent it; its alias is resolved when the command is decided.
    subject: str
    # The client's text, or the canonical text if ``canonical`` is set. Empty: the latest version's text.
    schema: str
    # ``None`` if the client sent none.
    schema_type: str | None = None
    references: list[Reference] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    # 0: the next version; -1: the next, recorded as ``confluent:version``; otherwise exactly this one.
    version: int = 0
    # -1: allocate an id; otherwise import the schema under this id.
    schema_id: int = -1
    normalize: bool = False
    force: bool = False
    # The format of the schema in the reply.
    format: str = ""
    # Applied to the schema that was sent, before anything else.
    tags_to_add: list[TagsOf] | None = None
    tags_to_remove: list[TagsOf] | None = None
    # True if parts that are unchanged since the latest version keep their tags.
    propagate_tags: bool = False
    # True if ``schema`` was parsed as a new one, without references, and is canonical: no need to parse it
    # again.
    canonical: bool = False
    # False if the principal may not import an id far above all others of the context.
    far_ids: bool = True

    @property
    def type_name(self) -> str:
        """The schema type, also if the client sent none."""
        return DEFAULT_TYPE if self.schema_type is None else self.schema_type

    @property
    def changes_tags(self) -> bool:
        """True if tags change the text before it is registered."""
        return bool(self.tags_to_add or self.tags_to_remove or self.propagate_tags)


class TagVersion(_Command, frozen=True, tag="TagVersion"):
    """Register a version again with other tags, metadata or rules."""

    # Qualified name of the subject that the version belongs to.
    subject: str
    # -1 for the latest.
    version: int
    # 0: the next version; otherwise as ``version`` in :class:`Register`.
    new_version: int = 0
    tags_to_add: list[TagsOf] | None = None
    tags_to_remove: list[TagsOf] | None = None
    # ``None``: that of the version.
    metadata: Metadata | None = None
    # ``None``: that of the version, with the changes below.
    rule_set: RuleSet | None = None
    rules_to_merge: RuleSet | None = None
    rules_to_remove: list[str] | None = None


class DeleteSubject(_Command, frozen=True, tag="DeleteSubject"):
    """Delete all versions of a subject."""

    # As in :class:`Register`.
    subject: str
    permanent: bool = False
    # True: whatever the data needs (:mod:`.decide.deletion_guard`).
    force: bool = False


class DeleteVersion(_Command, frozen=True, tag="DeleteVersion"):
    """Delete one version."""

    # As in :class:`Register`.
    subject: str
    # -1 for the latest.
    version: int
    permanent: bool = False
    # As in :class:`DeleteSubject`.
    force: bool = False


class PutConfig(_Command, frozen=True, tag="PutConfig"):
    """Merge ``patch`` into a scope's config: an absent member stays, ``None`` clears, a value replaces."""

    # Qualified name; ``None`` for the top level.
    subject: str | None
    # Valid members, named as in the log (``compatibilityLevel``, ``normalize``, …).
    patch: dict[str, Any]


class DeleteConfig(_Command, frozen=True, tag="DeleteConfig"):
    """Remove the config of a scope."""

    subject: str | None


class PutMode(_Command, frozen=True, tag="PutMode"):
    """Set the mode of a scope, or remove it with ``None``."""

    subject: str | None
    # Upper case.
    mode: str | None
    # The mode as the client spelled it, returned in the reply.
    echo: str | None
    force: bool = False


class DeleteMode(_Command, frozen=True, tag="DeleteMode"):
    """Remove the mode of a scope."""

    subject: str | None
    recursive: bool = False


class DeleteContext(_Command, frozen=True, tag="DeleteContext"):
    """Delete an empty context."""

    context: str


class ReleaseIds(_Command, frozen=True, tag="ReleaseIds"):
    """Make reserved ids free again that no version has."""

    context: str
    first: int
    last: int


class RequestSnapshot(_Command, frozen=True, tag="RequestSnapshot"):
    """Request a snapshot of the state at this position of the log."""

    # Random hexadecimal digits that identify the request.
    request: str
    # Markers up to this offset satisfy no further request. Set by the primary, which knows of builds.
    begun: int = -1


class AssociationRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One association as a request describes it; ``None`` for what it leaves out."""

    association_type: str | None = None
    # As the client sent it; without a context it lies in the command's context.
    subject: str | None = None
    # One of :data:`.associations.LIFECYCLES`.
    lifecycle: str | None = None
    frozen: bool | None = None
    # Registered under the association's subject; names none itself.
    schema: Register | None = None
    # The GUID that the association gets if this creates it.
    guid: str = ""
    # Only in :class:`ChangeAssociations`: ``CREATE``, ``UPSERT`` or ``DELETE``.
    op: str = ""
    # Only with ``DELETE``: a strong association takes its subject with it.
    cascade: bool = False


class Failure(msgspec.Struct, frozen=True):
    """An error that a request of a batch already has; it is returned as it is."""

    code: int
    message: str


class ResourceRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A resource and its associations as a request describes them, not yet validated."""

    name: str | None = None
    namespace: str | None = None
    resource_id: str | None = None
    resource_type: str | None = None
    associations: list[AssociationRequest] = []
    error: Failure | None = None


class Associate(_Command, frozen=True, tag="Associate"):
    """Create associations of a resource, all or none, and register the schemas that come with them."""

    request: ResourceRequest
    # The context of subjects that name none.
    context: str
    # True if the associations must be new or exist exactly as given; otherwise existing ones may change.
    create: bool
    dry_run: bool = False


class Dissociate(_Command, frozen=True, tag="Dissociate"):
    """Remove associations of a resource, all or none."""

    resource_id: str
    resource_type: str
    # ``None``: all.
    association_types: list[str] = []
    cascade: bool = False
    dry_run: bool = False
    # As in :class:`DeleteSubject`, for subjects that go with their associations.
    force: bool = False


class ChangeAssociations(_Command, frozen=True, tag="ChangeAssociations"):
    """Change the associations of several resources; each operation succeeds or fails on its own."""

    requests: list[ResourceRequest]
    context: str
    dry_run: bool = False
    # True if errors in the reply name their passages, in a member that no client gets.
    passages: bool = False


class PutWebhook(_Command, frozen=True, tag="PutWebhook"):
    """Create or change a webhook."""

    name: str
    url: str
    # Names of kinds of events; none: all.
    kinds: list[str] = []
    subject_prefix: str = ""
    enabled: bool = True
    # Only for a new webhook: the offset of the first event to send; -1: only what comes later.
    start: int = -1
    # Random hexadecimal digits, for a new webhook.
    id: str = ""
    # Fingerprint of the setting from which its secret is derived, for a new webhook.
    key: str = ""


class DeleteWebhook(_Command, frozen=True, tag="DeleteWebhook"):
    """Delete a webhook."""

    name: str


class RotateWebhook(_Command, frozen=True, tag="RotateWebhook"):
    """Give a webhook a new secret."""

    name: str
    # As in :class:`PutWebhook`.
    key: str
    # In ms since the epoch.
    now: int


class MoveWebhook(_Command, frozen=True, tag="MoveWebhook"):
    """Set the position of a webhook."""

    name: str
    # The offset of the next event to send; -1: only what comes later.
    to: int = -1


class AdvanceWebhook(_Command, frozen=True, tag="AdvanceWebhook"):
    """Advance the position of a webhook, if it is still ``since``. Only the primary itself sends this."""

    name: str
    id: str
    since: int
    to: int


class DisableWebhook(_Command, frozen=True, tag="DisableWebhook"):
    """Disable a webhook, if it was not changed after ``offset``. Only the primary itself sends this."""

    name: str
    offset: int
    reason: str


class PutUsage(_Command, frozen=True, tag="PutUsage"):
    """Record what a source of data uses, as a census counted it."""

    source: str
    # As in its record, without parts (:class:`.log_format.usage.Usage`).
    value: bytes


class DeleteUsage(_Command, frozen=True, tag="DeleteUsage"):
    """Remove the usage of a source that no longer exists."""

    source: str


class PutCensus(_Command, frozen=True, tag="PutCensus"):
    """Record a census, after the usage of all its sources."""

    # As in its record (:class:`.log_format.usage.Census`).
    value: bytes


class AskWebhooks(_Command, frozen=True, tag="AskWebhooks"):
    """A query for the webhooks and the state of their deliveries, which only the primary knows."""

    # Empty: all of them.
    name: str = ""


class PingWebhook(_Command, frozen=True, tag="PingWebhook"):
    """A query for what a webhook's receiver answers to a test event."""

    name: str


WebhookCommand = PutWebhook | DeleteWebhook | RotateWebhook | MoveWebhook | AdvanceWebhook | DisableWebhook
UsageCommand = PutUsage | DeleteUsage | PutCensus
Command = (
    Register
    | TagVersion
    | DeleteSubject
    | DeleteVersion
    | PutConfig
    | DeleteConfig
    | PutMode
    | DeleteMode
    | DeleteContext
    | ReleaseIds
    | RequestSnapshot
    | Associate
    | Dissociate
    | ChangeAssociations
    | WebhookCommand
    | UsageCommand
)
# Queries that only the primary answers. They write nothing, but travel as commands do.
PrimaryQuery = AskWebhooks | PingWebhook
Submitted = Command | PrimaryQuery


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requirements of ``If-Match`` and ``If-None-Match`` on what a command changes (RFC 9110, section 13.1).

    Entity tags come without quotes; ``*`` stands for any. ``None``: the header was not sent.
    """

    # It exists and has one of these tags.
    match: list[str] | None = None
    # It does not exist, or has none of these tags.
    none_match: list[str] | None = None


class IdempotencyKey(msgspec.Struct, frozen=True):
    """The identity of a command, the same each time that the command is sent."""

    # Random, IDEMPOTENCY_KEY_BYTES long, chosen by the process that received the request.
    id: bytes
    # No record of the command has a lower offset: where the log ended when the command was first sent.
    since: int


IDEMPOTENCY_KEY_BYTES = 16


class Done(msgspec.Struct, frozen=True, tag="Done"):
    """The command was decided and appended, or needed no record."""

    # The JSON of the reply; empty for status 204.
    body: bytes
    # An offset at which the effect is visible.
    offset: int


class Refused(msgspec.Struct, frozen=True, omit_defaults=True, tag="Refused"):
    """The command was refused and changed nothing."""

    # Confluent's error code.
    code: int
    message: str
    # As in :class:`.errors.RegistryError`.
    retry_after_s: int = 0
    passages: list[Passage] | None = None


class Unknown(msgspec.Struct, frozen=True, tag="Unknown"):
    """The command may or may not have been executed; clients get error 50002."""

    message: str
    # True if it may be sent again with its idempotency key: it is executed once at most.
    repeats: bool = False


class NotPrimary(msgspec.Struct, frozen=True, tag="NotPrimary"):
    """Nothing was done: this node is not the primary. Never sent to a client; another node is asked."""


class Forgotten(msgspec.Struct, frozen=True, tag="Forgotten"):
    """The idempotency key is too old to know if the command was executed before; nothing was done now.

    Never sent to a client: a command that certainly was not executed is sent again with a newer key.
    """


class Deferred(msgspec.Struct, frozen=True, tag="Later"):
    """Deferred: too slow to decide inline. Returned only to callers that opted in.

    Never sent to a client: the command is sent again on its own, so that no other command waits for it.
    """


Outcome = Done | Refused | Unknown | NotPrimary | Forgotten | Deferred


def refusal(error: RegistryError) -> Refused:
    """Return the outcome that reports ``error``."""
    return Refused(error.code, error.message, error.retry_after_s, error.passages)


def repeatable(command: Submitted, condition: Condition | None = None) -> bool:
    """Return true if the command is idempotent and can be retried without an idempotency key.

    With a condition it is not: its own effect would fail the condition of the next attempt.
    """
    if condition is not None:
        return False
    if isinstance(command, Register):
        return command.version != -1 and not command.changes_tags
    return isinstance(
        command, RequestSnapshot | PutWebhook | AskWebhooks | PingWebhook | PutUsage | PutCensus
    )
