"""A ZooKeeper session for an event loop. The only module that knows kazoo, which runs threads of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.security import ACL, CREATOR_ALL_ACL, make_acl, make_digest_acl_credential

_TIMEOUT_S = 1.0
_HANGS_UP_WITHIN_S = 0.5
_PORT = 2181


class Tls(NamedTuple):
    """PEM files for TLS; an empty name means unset. They are read for each connection."""

    ca: str = ""
    certificate: str = ""
    key: str = ""

    def arguments(self) -> dict[str, Any]:
        """Return the settings as arguments of kazoo's client."""
        return {
            "use_ssl": True,
            "ca": self.ca or None,
            "certfile": self.certificate or None,
            "keyfile": self.key or self.certificate or None,
            "check_hostname": True,
        }

    def context(self) -> ssl.SSLContext:
        """Return the context of one connection."""
        context = ssl.create_default_context(cafile=self.ca or None)
        # As kazoo: certificates of private CAs often lack what Python 3.13 demands by default.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.certificate:
            # Without a password, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self.certificate, self.key or None, lambda: "")
        return context


async def unreachable(hosts: str, tls: Tls | None) -> str:
    """Return a sentence: none of ``hosts`` (``HOST:PORT,…``) can be reached, why, and the setting."""
    reasons = {}
    for address in hosts.split(","):
        host, _, port = address.rpartition(":")
        reasons[address] = await _reason(host.strip("[]"), int(port or _PORT), tls)
    reason = next(filter(None, reasons.values()), "")
    return f"ZooKeeper at {hosts} cannot be reached{': ' if reason else ''}{reason}"


async def _reason(host: str, port: int, tls: Tls | None) -> str:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            if tls is not None:
                return await _reason_with_tls(host, port, tls)
            return "it uses TLS; see zookeeper_tls" if await _speaks_tls(host, port) else ""
    except TimeoutError:
        return f"no answer in {_TIMEOUT_S:g} s"
    except OSError as error:
        return str(error)


async def _reason_with_tls(host: str, port: int, tls: Tls) -> str:
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=tls.context())
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted: {error.verify_message}; see zookeeper_tls_ca"
    except (ssl.SSLError, ConnectionResetError) as error:
        if await _speaks_tls(host, port):
            return f"its TLS refuses this client: {error}; see zookeeper_tls_certificate"
        return "it uses no TLS; see zookeeper_tls"
    try:
        # In TLS 1.3 a server examines the client's certificate after the client has finished.
        async with asyncio.timeout(_HANGS_UP_WITHIN_S):
            hangs_up = not await reader.read(1)
    except (ssl.SSLError, ConnectionResetError):
        hangs_up = True
    except TimeoutError:
        hangs_up = False
    finally:
        writer.transport.abort()
    if not tls.certificate:
        return "it hangs up; see zookeeper_tls_certificate, if it demands one"
    return "it refuses the certificate of this client; see zookeeper_tls_certificate" if hangs_up else ""


async def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent, and the answer only helps to word an error
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (ssl.SSLError, ConnectionResetError):
        return False
    writer.transport.abort()
    return True


ANY_VERSION = -1
BACKOFF_MIN_S = 0.05
# Between attempts to connect, doubled each time.
BACKOFF_MAX_S = 1.0


class ZooKeeperError(Exception):
    """ZooKeeper did not answer, or refused; the text is a full sentence. A retry may succeed."""


class ZNode(NamedTuple):
    """A znode."""

    data: bytes
    version: int
    # The session that owns an ephemeral znode; 0: it is not ephemeral.
    owner: int


class Connection:
    """A session, used by one event loop. Paths are below ``chroot``, which is created if it is missing.

    ``auth`` has ``USER:PASSWORD`` on each line, or is "": while the password changes, the new and the old
    one. The session has the rights of all of them, and gives its znodes to all of them. ``tls`` is ``None``
    for connections without TLS. ``changed`` is called on the event loop whenever the connection state or a
    watched znode changes.
    """

    def __init__(
        self,
        hosts: str,
        chroot: str,
        session_s: float,
        auth: str,
        changed: Callable[[], None],
        tls: Tls | None = None,
    ) -> None:
        self._root = "/" + chroot.strip("/") if chroot.strip("/") else ""
        self._answer_s = session_s / 3
        self._changed = changed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._logins = [_login(line) for line in auth.split("\n") if line]
        self._client = KazooClient(
            hosts,
            timeout=session_s,
            connection_retry={
                "max_tries": -1,
                "delay": BACKOFF_MIN_S,
                "backoff": 2,
                "max_delay": BACKOFF_MAX_S,
            },
            auth_data=[("digest", ":".join(each)) for each in self._logins] or None,
            default_acl=CREATOR_ALL_ACL if auth else None,
            **(tls.arguments() if tls else {}),
        )
        self._client.add_listener(self._on_state)

    @property
    def is_connected(self) -> bool:
        """True if the session is certainly alive."""
        return bool(self._client.state == KazooState.CONNECTED)

    @property
    def session(self) -> int:
        """The session's id; 0: none."""
        return int((self._client.client_id or (0, b""))[0])

    def start(self) -> None:
        """Connect from the running event loop, and reconnect until :meth:`close`."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._client.start_async()

    async def close(self) -> None:
        """End the session. If ZooKeeper can be reached, its ephemeral znodes are deleted at once."""
        if self._loop is not None:
            self._client.remove_listener(self._on_state)
            # Without a connection the session ends by its timeout.
            with contextlib.suppress(AttributeError, OSError, KazooException):
                await asyncio.to_thread(self._client.stop)
            await asyncio.to_thread(self._client.close)

    async def get(self, path: str, *, watch: bool = False) -> ZNode | None:
        """Return the znode at ``path``, or ``None``. With ``watch`` its next change calls ``changed``."""
        full = self._root + path
        if watch and await self._ask(self._client.exists_async(full, watch=self._on_node)) is None:
            return None
        try:
            data, stat = await self._ask(self._client.get_async(full))
        except NoNodeError:
            return None
        return ZNode(data, stat.version, stat.ephemeralOwner)

    async def children(self, path: str) -> list[str]:
        """Return the names below ``path``, which must exist; their next change calls ``changed``."""
        names = await self._ask(self._client.get_children_async(self._root + path, watch=self._on_node))
        return sorted(names)

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False
    ) -> str | None:
        """Create a znode and its parents; return its path, or ``None`` if it exists already."""
        try:
            made: str = await self._ask(
                self._client.create_async(
                    self._root + path, data, ephemeral=ephemeral, sequence=sequence, makepath=True
                )
            )
        except NodeExistsError:
            return None
        return made.removeprefix(self._root)

    async def renew_access(self, path: str) -> None:
        """Give a znode that stays to the present logins, and take it from former passwords of their users."""
        if not (self._logins and self._root + path):
            return
        full = self._root + path
        try:
            given, stat = await self._ask(self._client.get_acls_async(full))
            if (wanted := renew_acl(given, self._logins)) != given:
                await self._ask(self._client.set_acls_async(full, wanted, stat.aversion))
        except (BadVersionError, NoNodeError):
            return  # Another node has done it, or will create it.

    async def put(self, path: str, data: bytes, version: int) -> bool:
        """Set a znode's data if it still has ``version``; return True if so."""
        try:
            await self._ask(self._client.set_async(self._root + path, data, version))
        except (BadVersionError, NoNodeError):
            return False
        return True

    async def delete(self, path: str, version: int = ANY_VERSION) -> bool:
        """Delete a znode if it exists in ``version``; return True if so."""
        try:
            await self._ask(self._client.delete_async(self._root + path, version))
        except (BadVersionError, NoNodeError):
            return False
        return True

    async def catch_up(self, path: str) -> None:
        """Bring the connected server up to date with the ensemble."""
        await self._ask(self._client.sync_async(self._root + path))

    async def _ask(self, asked: Any) -> Any:
        assert self._loop is not None, "the connection was not started"
        answer: asyncio.Future[None] = self._loop.create_future()
        asked.rawlink(lambda _: self._from_thread(_settle, answer))
        try:
            async with asyncio.timeout(self._answer_s):
                await answer
            return asked.get(block=False)
        except TimeoutError as error:
            raise ZooKeeperError("ZooKeeper did not answer in time") from error
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except (AuthFailedError, InvalidACLError, NoAuthError) as error:
            raise ZooKeeperError(
                f"ZooKeeper refused the login ({type(error).__name__}): its znodes are another user's; "
                "see zookeeper_auth"
            ) from error
        except KazooException as error:
            raise ZooKeeperError(f"ZooKeeper refused: {type(error).__name__} {error}".rstrip()) from error

    def _on_state(self, state: str) -> None:
        self._from_thread(self._changed)

    def _on_node(self, event: object) -> None:
        self._from_thread(self._changed)

    def _from_thread(self, call: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None, "the connection was not started"
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(call, *arguments)


def _login(line: str) -> tuple[str, str]:
    user, _, password = line.partition(":")
    return user, password


def renew_acl(given: list[ACL], logins: list[tuple[str, str]]) -> list[ACL]:
    """Return who may access a znode from now on; one that is open to all stays as it is."""
    if not given or any(each.id.scheme == "world" for each in given):
        return given
    users = {user for user, _ in logins}
    own = [make_digest_acl_credential(user, password) for user, password in logins]
    kept = [
        each
        for each in given
        if each.id.scheme != "digest" or each.id.id in own or each.id.id.partition(":")[0] not in users
    ]
    there = {each.id.id for each in kept}
    return [*kept, *(make_acl("digest", each, all=True) for each in own if each not in there)]


def _settle(answer: asyncio.Future[None]) -> None:
    if not answer.done():
        answer.set_result(None)
