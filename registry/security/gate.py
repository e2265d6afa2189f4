"""The gate of the API: how senders are authenticated and what they may do."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from registry.domain.errors import RegistryError
from registry.domain.model import Subject
from registry.domain.principal import ANONYMOUS, CheckedNames, Principal
from registry.domain.subject_patterns import SubjectRange


class Permission(Enum):
    """A kind of operation, as rules name it."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    COMPATIBILITY = "compatibility"
    CONFIG = "config"
    MODE = "mode"
    ADMIN = "admin"
    # To delete permanently what the data may still need.
    FORCE = "force"


# What changes nothing.
READING = frozenset({Permission.READ, Permission.COMPATIBILITY})


class Access(Hashable, Protocol):
    """Permissions of one principal. Implementations are immutable, so that they can be cached."""

    def may(self, permission: Permission, subject: Subject) -> bool:
        """Return true if the principal may do this to ``subject``, which may be a whole context."""
        ...

    def everywhere(self, permission: Permission) -> bool:
        """Return true if the principal may do this to every subject and context."""
        ...

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        """Return the subjects to which the principal may do this: sorted, disjoint ranges of names.

        Lists read only these, so that a page costs what it holds. Not to be called for permissions that hold
        everywhere.
        """
        ...


def everywhere_in(access: Access, permission: Permission, context: str) -> bool:
    """Return true if the principal may do this to a context and to every subject in it."""
    whole = SubjectRange(context, b"", b"")
    return access.everywhere(permission) or whole in access.ranges(permission)


class RecordingAccess:
    """The access of a principal that remembers what was checked and permitted.

    So a write carries what its handler has checked, and no handler needs to say so.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._everywhere: set[str] = set()
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    @property
    def checked_names(self) -> CheckedNames:
        """The names that were checked so far."""
        names = {operation: frozenset(found) for operation, found in self._names.items()}
        return CheckedNames(frozenset(self._everywhere), names)

    def may(self, permission: Permission, subject: Subject) -> bool:
        """Return true if the principal may do this to ``subject``."""
        permitted = self._access.may(permission, subject)
        if permitted:
            self._names[permission.value].add(subject.qualified)
        return permitted

    def everywhere(self, permission: Permission) -> bool:
        """Return true if the principal may do this to every subject and context."""
        permitted = self._access.everywhere(permission)
        if permitted:
            self._everywhere.add(permission.value)
        return permitted

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        """Return the subjects to which the principal may do this."""
        return self._access.ranges(permission)


class _FullAccess:
    """Access without any limit."""

    def may(self, permission: Permission, subject: Subject) -> bool:
        return True

    def everywhere(self, permission: Permission) -> bool:
        return True

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        raise AssertionError("everything is permitted everywhere")


class _NoAccess:
    """Access to nothing."""

    def may(self, permission: Permission, subject: Subject) -> bool:
        return False

    def everywhere(self, permission: Permission) -> bool:
        return False

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        return ()


FULL_ACCESS: Access = _FullAccess()
NO_ACCESS: Access = _NoAccess()


KIND_OF_METHOD: Final = {"basic": "user", "bearer": "token", "certificate": "cert"}


class NotAdmitted(RegistryError):
    """A request that is not admitted, with headers for the answer."""

    def __init__(self, code: int, message: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        super().__init__(code, message)
        self.headers = headers


class NoCredentials(NotAdmitted):
    """A request without credentials to a registry that needs them."""


class Credentials(NamedTuple):
    """Credentials of a request and its connection."""

    authorization: bytes = b""  # the value of the header, as sent
    certificate: str = ""  # the principal's name from a verified client certificate
    address: str = ""  # of the client: the connection's, or behind a trusted proxy the forwarded one


class Admission(NamedTuple):
    """An authenticated request's principal and access."""

    principal: Principal
    access: Access
    method: str = ""  # by which the principal authenticated: ``basic``, ``bearer`` or ``certificate``

    @property
    def kind(self) -> str:
        """The kind of the principal, as rules name it; empty without authentication."""
        return KIND_OF_METHOD.get(self.method, "")


@dataclass(frozen=True, slots=True)  # Read with every request: the attributes of a named tuple take longer.
class Pass:
    """An admission that need not be looked up for each request of a client; see :meth:`PassGate.holds`."""

    admission: Admission
    until: float = math.inf  # in seconds of ``time.monotonic``
    edition: object = None  # of the users, keys and rules behind it


EVERYONE: Final = Admission(ANONYMOUS, FULL_ACCESS)
STRANGER: Final = Admission(ANONYMOUS, NO_ACCESS)
OPEN_PASS: Final = Pass(EVERYONE)
NO_PASS: Final = Pass(STRANGER, -math.inf)


# In ``Credentials.authorization``, in front of the token of a console's session, which came in a cookie.
SESSION: Final = b"Session "


class SignedIn(NamedTuple):
    """A session of the console."""

    cookie: str  # its name
    token: bytes
    lasts_s: int


class SessionTime(NamedTuple):
    """The seconds that a session still lasts, and those that it would if it were renewed now."""

    left: int
    lasts: int


class SessionGate(Protocol):
    """The sessions of a gate; all calls are quick."""

    @property
    def cookie(self) -> str:
        """The name of the cookie that holds tokens."""
        ...

    def begin(self, credentials: Credentials, admission: Admission) -> SignedIn:
        """Begin a session of who was admitted by these credentials, or renew theirs. Raises 400, 401."""
        ...

    def time_of(self, credentials: Credentials) -> SessionTime | None:
        """Return the time of the session of these credentials; ``None`` if they have none."""
        ...

    def end(self, credentials: Credentials) -> None:
        """End the session of these credentials, if they have one. Raises 503."""
        ...


class Gate(Protocol):
    """Authenticates requests and finds their access."""

    def cached_admission(self, credentials: Credentials) -> Admission | None:
        """Return the admission of credentials that were verified a short time ago.

        ``None`` if they have to be verified. Called for every request of the application, so it never waits
        and reads at most a few dictionaries. Changed users or rules apply at the next call.
        """
        ...

    async def admit(self, credentials: Credentials) -> Admission:
        """Verify credentials, which may take long (a password's hash, a new signing key).

        Raises :class:`~registry.domain.errors.RegistryError`, mostly :class:`NotAdmitted`: 401 for missing
        (:class:`NoCredentials`) or wrong credentials, 429 for a client that has failed too often, 503 if they
        cannot be verified now.
        """
        ...


class PassGate(Protocol):
    """A gate for many requests with the same credentials."""

    def find_pass(self, credentials: Credentials) -> Pass | None:
        """Return a pass where :meth:`Gate.cached_admission` returns an admission."""
        ...

    def holds(self, found: Pass) -> bool:
        """Return true if :meth:`find_pass` need not be called again, since it would admit as before.

        Called for every request, so it never waits and reads no dictionary. Changed users or rules apply at
        the next call.
        """
        ...


class WatchedGate(Gate, PassGate, Protocol):
    """A gate whose users, keys and rules come from files that may change."""

    async def watch(self) -> None:
        """Keep the files' content up to date until cancelled."""
        ...

    @property
    def sessions(self) -> SessionGate | None:
        """The sessions of the console; ``None``: there are none."""
        ...


class _OpenGate:
    """A gate that admits everyone with full access, for a registry without authentication and rules."""

    def cached_admission(self, credentials: Credentials) -> Admission | None:
        return EVERYONE

    async def admit(self, credentials: Credentials) -> Admission:
        return EVERYONE

    def find_pass(self, credentials: Credentials) -> Pass | None:
        return OPEN_PASS

    def holds(self, found: Pass) -> bool:
        return True

    async def watch(self) -> None:
        """Return at once: there is nothing to watch."""

    @property
    def sessions(self) -> SessionGate | None:
        return None


OPEN_GATE: WatchedGate = _OpenGate()


class Oidc(NamedTuple):
    """The issuer at which users of the console sign in, by the authorization code flow."""

    issuer: str
    client_id: str
    scopes: str
    audience: str  # to ask for; empty: none
    token: str  # that authenticates here: ``access`` or ``id``


class SignIn(NamedTuple):
    """The ways to authenticate that settings turn on."""

    required: bool = False
    basic: bool = False  # a name and a password
    bearer: bool = False  # a token of an issuer
    certificate: bool = False  # of the client, on https listeners
    oidc: Oidc | None = None


NO_SIGN_IN = SignIn()
