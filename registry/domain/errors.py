"""All errors that clients can receive, with Confluent's codes and messages.

A three-digit code is the HTTP status itself; a longer one begins with it.
"""

from __future__ import annotations

from typing import NamedTuple


class ErrorKind(NamedTuple):
    """An error code and the template of its message."""

    code: int
    template: str

    def __call__(self, *values: object) -> RegistryError:
        """Return the error with ``values`` filled in."""
        return RegistryError(self.code, self.template % values if values else self.template)


# Member of the errors in a batch's reply that holds their passages, on the way to the client.
PASSAGES = "passages"


class Passage(NamedTuple):
    """A part of a message that shows stored schemas."""

    # Positions in the message, in characters.
    begin: int
    end: int
    # The qualified names of the schemas' subjects; none if they are too many to list.
    subjects: list[str]


class RegistryError(Exception):
    """A refused request, answered with Confluent's code and message; nothing was changed."""

    def __init__(self, code: int, message: str, passages: list[Passage] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        # What the message shows of stored schemas, in order; ``None`` if nobody has looked.
        self.passages = passages
        # Seconds after which the client should try again; 0 if that is not known.
        self.retry_after_s = 0

    def with_retry_after(self, seconds: int) -> RegistryError:
        """Return the error with the seconds after which the client should try again."""
        self.retry_after_s = seconds
        return self

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1000 else self.code // 100


# As by Confluent's security plugin. The operation, and the subject or context as the client named it.
DENIED = ErrorKind(40301, "User is denied operation %s on Subject: %s")
DENIED_ON_RESOURCE = ErrorKind(40301, "User is denied operation %s on the associations of resource '%s'")
DENIED_IN_ALL = ErrorKind(40301, "User is denied operation %s on this registry")
SUBJECT_NOT_FOUND = ErrorKind(40401, "Subject '%s' not found.")
VERSION_NOT_FOUND = ErrorKind(40402, "Version %s not found.")
SCHEMA_NOT_FOUND = ErrorKind(40403, "Schema not found")
SCHEMA_ID_NOT_FOUND = ErrorKind(40403, "Schema %s not found")
SUBJECT_SOFT_DELETED = ErrorKind(
    40404, "Subject '%s' was soft deleted.Set permanent=true to delete permanently"
)
SUBJECT_NOT_SOFT_DELETED = ErrorKind(
    40405, "Subject '%s' was not deleted first before being permanently deleted"
)
VERSION_SOFT_DELETED = ErrorKind(
    40406, "Subject '%s' Version %s was soft deleted.Set permanent=true to delete permanently"
)
VERSION_NOT_SOFT_DELETED = ErrorKind(
    40407, "Subject '%s' Version %s was not deleted first before being permanently deleted"
)
NO_SUBJECT_COMPATIBILITY = ErrorKind(
    40408, "Subject '%s' does not have subject-level compatibility configured"
)
NO_SUBJECT_MODE = ErrorKind(40409, "Subject '%s' does not have subject-level mode configured")
EVENTS_DELETED = ErrorKind(
    41080,
    "The records after offset %d are no longer in the log; the oldest one left has offset %d, so "
    "resume after %d",
)
SNAPSHOT_NOT_FOUND = ErrorKind(40480, "Snapshot '%s' not found.")
WEBHOOK_NOT_FOUND = ErrorKind(40481, "Webhook '%s' not found.")
CENSUS_NOT_FOUND = ErrorKind(40482, "No census has been published; run registrar census run --url")
SOURCE_NOT_FOUND = ErrorKind(40483, "Source '%s' not found.")
ASSOCIATION_NOT_FOUND = ErrorKind(40410, "Association for '%s' not found.")
CREATION_DENIED = ErrorKind(40380, "The policy for subject '%s' does not allow %s to create it")
REGISTRATION_DENIED = ErrorKind(
    40381,
    "The policy for subject '%s' does not allow %s to register new schemas; schemas that are "
    "already registered can be used",
)
ID_TOO_FAR = ErrorKind(
    40382,
    "Importing id %d would skip more than %d unused ids of %s; this requires the permission mode on "
    "the whole context",
)
PAST_LOST = ErrorKind(
    41081,
    "State at offset %d can no longer be reconstructed: %s. Earliest available offset: %d",
)
INCOMPATIBLE = ErrorKind(
    40901,
    'Schema being registered is incompatible with an earlier schema for subject "%s", details: [%s]',
)
# The same for a schema that comes with an association: only the messages.
INCOMPATIBLE_MESSAGES = ErrorKind(40901, "[%s]")
# The same for clients that may not read all that the messages show, if nobody has said which part that is.
INCOMPATIBLE_UNEXPLAINED = ErrorKind(40901, "Schema being registered is incompatible with an earlier schema")
RESOURCE_ASSOCIATED = ErrorKind(40903, "An association of type '%s' already exists for resource '%s'")
SNAPSHOT_BUSY = ErrorKind(40980, "Snapshot '%s' cannot be deleted now: %s")
WEBHOOKS_UNSIGNED = ErrorKind(40981, "Webhooks cannot be signed: %s")
IDS_USED_UP = ErrorKind(
    40982,
    "Register schema operation failed: the ids of %s are exhausted: %d is reserved, and no range below "
    "it is free. Release unused ids (registrar ids release), or register in another context",
)
ID_IN_USE = ErrorKind(
    40983,
    "The ids %d to %d of %s cannot be released: the id %d is in use. Permanently delete all versions with "
    "these ids first",
)
DATA_NEEDS_VERSION = ErrorKind(
    40984, "Subject '%s' is not deleted permanently: %s. force=true skips this check"
)
ASSOCIATION_EXISTS = ErrorKind(40904, "An association already exists for subject '%s'")
STRONG_ASSOCIATION_EXISTS = ErrorKind(40905, "A strong association already exists for subject '%s'")
NO_ACTIVE_VERSION = ErrorKind(40907, "No active (non-deleted) version exists for subject '%s'")
ASSOCIATION_FROZEN = ErrorKind(40908, "The association of type  '%s' is frozen for subject '%s'")
STATE_CHANGED = ErrorKind(
    41280,
    "%s does not meet the condition in If-Match or If-None-Match: %s. Nothing was written",
)
INVALID_SCHEMA = ErrorKind(42201, "%s")
INVALID_VERSION = ErrorKind(
    42202,
    "The specified version '%s' is not a valid version id. "
    'Allowed values are between [1, 2^31-1] and the string "latest"',
)
INVALID_COMPATIBILITY = ErrorKind(
    42203,
    "Invalid compatibility level. Valid values are none, backward, forward, full, "
    "backward_transitive, forward_transitive, and full_transitive",
)
INVALID_MODE = ErrorKind(42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.")
FORWARD_ONLY_GLOBAL = ErrorKind(42204, "Forward mode only supported on global level")
NOT_PERMITTED = ErrorKind(42205, "%s")
REFERENCE_EXISTS = ErrorKind(
    42206, "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=%s,version=%d}."
)
SUBJECT_REFERENCED = ErrorKind(42206, "One or more references exist to the schema %s.")
INVALID_SUBJECT = ErrorKind(42208, "The specified subject '%s' is not a valid.")
SCHEMA_TOO_LARGE = ErrorKind(42209, "Register operation failed because schema is too large")
INVALID_RULE_SET = ErrorKind(42210, "%s")
LINT_BROKEN = ErrorKind(42280, "The schema violates lint rules for subject '%s': %s")
VERSIONS_LIMIT = ErrorKind(
    42281,
    "Subject '%s' has %d versions, the maximum that its policy allows; delete one before registering another",
)
INVALID_WEBHOOK = ErrorKind(42282, "Invalid webhook: %s")
WEBHOOKS_LIMIT = ErrorKind(42283, "The limit of %d webhooks is reached; delete one first")
NO_COMPLETE_CENSUS = ErrorKind(42285, "The level %s needs a complete census of the data, and %s")
INVALID_USAGE = ErrorKind(42284, "Invalid usage or census: %s")
CONTEXT_NOT_EMPTY = ErrorKind(42211, "The specified context '%s' is not empty.")
ASSOCIATION_INVALID = ErrorKind(
    42212, "The association specified an invalid value for property: '%s', detail: %s"
)
STORE_FAILED = ErrorKind(50001, "%s")
# Its message comes from outcome_unknown(), or from the primary that answered.
OUTCOME_UNKNOWN = ErrorKind(50002, "%s")
FORWARD_FAILED = ErrorKind(50003, "%s")
NO_PRIMARY = ErrorKind(50004, "Leader not known.")

UNEXPECTED = ErrorKind(500, "Internal Server Error")
BAD_REQUEST = ErrorKind(400, "%s")
FORBIDDEN = ErrorKind(403, "%s")
NOT_FOUND = ErrorKind(404, "HTTP 404 Not Found")
METHOD_NOT_ALLOWED = ErrorKind(405, "HTTP 405 Method Not Allowed")
NOT_ACCEPTABLE = ErrorKind(406, "HTTP 406 Not Acceptable")
BODY_TIMEOUT = ErrorKind(408, "HTTP 408 Request Timeout")
BODY_TOO_LARGE = ErrorKind(413, "Request body is too large: %d>%d")
UNSUPPORTED_MEDIA_TYPE = ErrorKind(415, "HTTP 415 Unsupported Media Type")
TOO_MANY_REQUESTS = ErrorKind(429, "%s")
JSON_NEEDED = ErrorKind(415, "Send the header Content-Type: application/json")
UNPROCESSABLE = ErrorKind(422, "%s")
HISTORY_OFF = ErrorKind(501, "This server does not keep history: see the setting history")
SEARCH_OFF = ErrorKind(501, "This server keeps no search index: see the setting search")
INDEX_INCOMPLETE = ErrorKind(503, "The search index is being built; try again later")
TOO_LATE = ErrorKind(503, "Reconstructing that state timed out; try again")
UNAVAILABLE = ErrorKind(503, "%s")
NOT_OF_THE_LOG = ErrorKind(503, "This node's store does not match its log: %s")
NOT_STARTED = ErrorKind(503, "The node is still reading the log")
NAMES_CHANGED = ErrorKind(
    503, "An alias, association or reference changed during this request; nothing was written, try again"
)
TOO_MANY_WRITES = ErrorKind(503, "Too many writes are waiting")
TIMED_OUT = ErrorKind(504, "Request timed out")


def outcome_unknown(cause: str) -> str:
    """Return the message of a write that may or may not have been executed; ``cause`` has no full stop."""
    return f"{cause}; the outcome of the write is unknown, and it is safe to repeat it"
