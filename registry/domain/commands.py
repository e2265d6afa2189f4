"""Commands: wanted writes. They travel from readers to the node, so they are plain typed data."""

from __future__ import annotations

from typing import Any

import msgspec

from .errors import RegistryError
from .model import Metadata, Reference, RuleSet


class _Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wanted write.

    Tags and member names are what nodes of other versions read: they stay, whatever a class is called
    (``tests/unit/forwarding/test_wire_tags.py`` holds the bytes).
    """


class TagsOf(msgspec.Struct, frozen=True, array_like=True):
    """Tags of one entity of a schema; see :class:`.schemas.Entity`."""

    path: str
    kind: str
    tags: list[str]


class Register(_Command, frozen=True, tag="Register"):
    """Register a schema under a subject."""

    # Qualified name, as asked for: whoever decides follows its alias.
    subject: str
    # The client's text, or the canonical one where ``canonical`` says so; empty: the latest version's.
    schema: str
    # ``None`` when the client sent none.
    schema_type: str | None = None
    references: list[Reference] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    # 0: the next; -1: the next, marked with ``confluent:version``; otherwise exactly this one.
    version: int = 0
    # -1: allocate; otherwise import under this id.
    schema_id: int = -1
    normalize: bool = False
    force: bool = False
    # The form of the schema in the reply.
    format: str = ""
    # To what is sent, before anything else.
    tags_to_add: list[TagsOf] | None = None
    tags_to_remove: list[TagsOf] | None = None
    # Whether what is there as in the latest version keeps the tags it has there.
    propagate_tags: bool = False
    # ``schema`` was parsed as new, without references, and is canonical: it need not be parsed again.
    canonical: bool = False

    @property
    def changes_tags(self) -> bool:
        """Whether the text is to be changed before it is registered."""
        return bool(self.tags_to_add or self.tags_to_remove or self.propagate_tags)


class TagVersion(_Command, frozen=True, tag="TagVersion"):
    """Register a version anew with other tags, metadata or rules."""

    # Qualified name of the subject that has the version.
    subject: str
    # -1 for the latest.
    version: int
    # As ``version`` in :class:`Register`; 0: the next.
    new_version: int = 0
    tags_to_add: list[TagsOf] | None = None
    tags_to_remove: list[TagsOf] | None = None
    # ``None``: the version's.
    metadata: Metadata | None = None
    # ``None``: the version's, with the following changes.
    rule_set: RuleSet | None = None
    rules_to_merge: RuleSet | None = None
    rules_to_remove: list[str] | None = None


class DeleteSubject(_Command, frozen=True, tag="DeleteSubject"):
    """Delete all versions of a subject."""

    # As in :class:`Register`.
    subject: str
    permanent: bool = False


class DeleteVersion(_Command, frozen=True, tag="DeleteVersion"):
    """Delete one version."""

    # As in :class:`Register`.
    subject: str
    # -1 for the latest.
    version: int
    permanent: bool = False


class PutConfig(_Command, frozen=True, tag="PutConfig"):
    """Merge ``patch`` into a scope's config: an absent member stays, ``None`` clears, a value replaces."""

    # Qualified name; ``None`` for the top level.
    subject: str | None
    # Valid members under their names in the log (``compatibilityLevel``, ``normalize``, …).
    patch: dict[str, Any]


class DeleteConfig(_Command, frozen=True, tag="DeleteConfig"):
    """Remove the config of a scope."""

    subject: str | None


class PutMode(_Command, frozen=True, tag="PutMode"):
    """Set the mode of a scope, or remove it with ``None``."""

    subject: str | None
    # Upper case.
    mode: str | None
    # The mode as the client spelled it, for the reply.
    echo: str | None
    force: bool = False


class DeleteMode(_Command, frozen=True, tag="DeleteMode"):
    """Remove the mode of a scope."""

    subject: str | None
    recursive: bool = False


class DeleteContext(_Command, frozen=True, tag="DeleteContext"):
    """Forget an empty context."""

    context: str


class RequestSnapshot(_Command, frozen=True, tag="RequestSnapshot"):
    """Ask for a snapshot of the state at this place of the log."""

    # Random hexadecimal digits, which tell requests apart.
    request: str
    # Markers up to this offset do for no further request: given by the primary, which knows of builds.
    begun: int = -1


class WantedAssociation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request says of one association of a resource; ``None`` where it says nothing."""

    association_type: str | None = None
    # As the client gave it: without a context it lies in the command's.
    subject: str | None = None
    # One of :data:`.associations.LIFECYCLES`.
    lifecycle: str | None = None
    frozen: bool | None = None
    # To register under the subject, which it does not name itself.
    schema: Register | None = None
    # That of the association, where it is made by this.
    guid: str = ""
    # In :class:`ChangeAssociations`: ``CREATE``, ``UPSERT`` or ``DELETE``.
    op: str = ""
    # With ``DELETE``: a strong one takes its subject along.
    cascade: bool = False


class Failure(msgspec.Struct, frozen=True):
    """An error that a request of a batch brings along instead of work to do; it is answered as it is."""

    code: int
    message: str


class ResourceRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request says of a resource and its associations, not yet checked."""

    name: str | None = None
    namespace: str | None = None
    resource_id: str | None = None
    resource_type: str | None = None
    associations: list[WantedAssociation] = []
    error: Failure | None = None


class Associate(_Command, frozen=True, tag="Associate"):
    """Make associations of a resource, all or none; schemas that come with them are registered."""

    request: ResourceRequest
    # Of subjects that name none.
    context: str
    # Whether they must be new, or be there just so; otherwise those that are there may be changed.
    create: bool
    dry_run: bool = False


class Dissociate(_Command, frozen=True, tag="Dissociate"):
    """Remove associations of a resource, all or none."""

    resource_id: str
    resource_type: str
    # None: all.
    association_types: list[str] = []
    cascade: bool = False
    dry_run: bool = False


class ChangeAssociations(_Command, frozen=True, tag="ChangeAssociations"):
    """Change the associations of several resources; each operation counts for itself."""

    requests: list[ResourceRequest]
    context: str
    dry_run: bool = False


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
    | RequestSnapshot
    | Associate
    | Dissociate
    | ChangeAssociations
)


class IdempotencyKey(msgspec.Struct, frozen=True):
    """The identity of a command, the same however often the command is sent."""

    # Random, IDEMPOTENCY_KEY_BYTES long, chosen by the process in which the command arrived.
    id: bytes
    # No record of the command has a lower offset: the log's end as the sender knew it at first.
    since: int


IDEMPOTENCY_KEY_BYTES = 16


class Done(msgspec.Struct, frozen=True, tag="Done"):
    """A command was decided, appended and read back (or needed no record)."""

    # The JSON of the reply; empty for 204.
    body: bytes
    # An offset at which the effect is visible.
    offset: int


class Refused(msgspec.Struct, frozen=True, tag="Refused"):
    """A command was refused and changed nothing."""

    # Confluent's error code.
    code: int
    message: str


class Unknown(msgspec.Struct, frozen=True, tag="Unknown"):
    """A command may or may not have been done. A client that is told so is told 50002."""

    message: str
    # True if it may be sent again with its idempotency key: it is done only once, or its reply is repeated.
    repeats: bool = False


class NotPrimary(msgspec.Struct, frozen=True, tag="NotPrimary"):
    """Nothing was done: whoever was asked does not write now. No client is told; another node is asked."""


class Forgotten(msgspec.Struct, frozen=True, tag="Forgotten"):
    """The idempotency key is too old to tell if the command was done before; nothing was done now.

    Never sent to a client; a command that certainly was not done is sent again with a newer idempotency key.
    """


class Later(msgspec.Struct, frozen=True, tag="Later"):
    """Nothing was done, because to decide the command takes long; only for who said that it may be told so.

    No client is told; the command is sent again by itself, so that no other one waits for it.
    """


Outcome = Done | Refused | Unknown | NotPrimary | Forgotten | Later


def refused(error: RegistryError) -> Refused:
    """Return the outcome that says ``error``."""
    return Refused(error.code, error.message)


def repeatable(command: Command) -> bool:
    """Return True if the command is idempotent and can be retried without an idempotency key."""
    if isinstance(command, Register):
        return command.version != -1 and not command.changes_tags
    return isinstance(command, RequestSnapshot)
