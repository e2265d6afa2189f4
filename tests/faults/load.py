"""Load on a cluster: writers that read back their writes through all nodes, with a record of everything."""

from __future__ import annotations

import http.client
import random
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import orjson

from .history import History, Kind, Request

REQUEST_TIMEOUT_S = 30.0
# The share of subjects with a config and a mode; and of those, the share that loses the config again.
_SHARE = 0.4
_LEVELS = ("NONE", "BACKWARD", "FORWARD", "FULL")
_READ_ONLY = "READONLY"
# How far back in the log the past of a subject is read.
_BACK = 20
_HEADERS = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class Login(NamedTuple):
    """The user that clients are, and the authorities that they trust."""

    authorization: str
    context: ssl.SSLContext


class Line:
    """A connection to one node, reopened after it broke; with TLS if there is a ``login``."""

    def __init__(
        self, port: int, timeout_s: float = REQUEST_TIMEOUT_S, *, login: Login | None = None
    ) -> None:
        self._port = port
        self._login = login
        self._headers = _HEADERS | ({} if login is None else {"Authorization": login.authorization})
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: Any = None) -> tuple[dict[str, Any], float]:
        """The parts of an answer that :class:`Request` needs, and its time."""
        sent = False
        for fresh in (self._connection is None, True):
            try:
                connection = self._open()
            except OSError:
                return {"sent": sent}, time.monotonic()
            sent = True
            try:
                content = orjson.dumps(body) if body is not None else None
                connection.request(method, path, content, self._headers)
                response = connection.getresponse()
                raw = response.read()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                # A node that stops closes idle connections: nothing was accepted, and every client retries.
                if isinstance(error, ConnectionResetError | BrokenPipeError) and not fresh:
                    continue
                return {}, time.monotonic()
            if response.will_close:
                self.close()
            return _read(response, raw), time.monotonic()
        raise AssertionError("two tries")

    def _open(self) -> http.client.HTTPConnection:
        if self._connection is None:
            connection = self._unopened()
            connection.connect()
            self._connection = connection
        return self._connection

    def _unopened(self) -> http.client.HTTPConnection:
        if self._login is None:
            return http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=self._timeout_s, context=self._login.context
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(response: http.client.HTTPResponse, raw: bytes) -> dict[str, Any]:
    offset = response.getheader("X-Registry-Offset")
    try:
        answer = orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError:
        answer = raw.decode(errors="replace")
    return {
        "status": response.status,
        "answer": answer,
        "offset": None if offset is None else int(offset),
        "warning": response.getheader("Warning") is not None,
        "request_id": response.getheader("X-Request-ID") or "",
    }


def schema(name: str, number: int) -> str:
    """Return a schema that no other request registers, in the form that the log keeps."""
    fields = [{"name": f"f{each}", "type": "long", "default": 0} for each in range(number)]
    text = {"type": "record", "name": f"R{name}", "namespace": "faults", "fields": fields}
    return orjson.dumps(text).decode()


class Worker:
    """A client that registers, reads back through other nodes, and deletes every seventh subject.

    Some subjects get a config and, for a while, a mode in which nothing can be registered. Their past and
    their events are read, too.
    """

    def __init__(self, name: str, lines: Sequence[Line], history: History, chance: random.Random) -> None:
        """``lines``: one to each node."""
        self.name = name
        self.stopping = threading.Event()
        self._lines = lines
        self._history = history
        self._chance = chance
        self._turn = chance.randrange(len(lines))
        self._made = 0
        self._pause_s = 0.02
        self._thread = threading.Thread(target=self._run, name=f"worker {name}", daemon=True)
        self.trouble: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current subject."""
        self.stopping.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"worker {self.name} hangs"
        for line in self._lines:
            line.close()
        if self.trouble is not None:
            raise self.trouble

    def _run(self) -> None:
        try:
            while not self.stopping.wait(self._pause_s * self._chance.random()):
                self._made += 1
                self._one_subject(f"{self.name}-{self._made}", deletes=self._made % 7 == 0)
        except BaseException as error:
            self.trouble = error

    def _one_subject(self, subject: str, *, deletes: bool) -> None:
        for number in range(1, 2 + self._chance.randrange(3)):
            text = schema(subject.replace("-", "_"), number)
            done = self._register(subject, text)
            if done is None:
                return  # The state of this subject is unknown from now on.
            for _ in range(len(self._lines)):
                self._read_back(subject, done.answer["id"], text)
        if self._chance.random() < _SHARE:
            self._set_and_look_back(subject, done)
        if deletes:
            self._ask(Kind.DELETE, "DELETE", f"/subjects/{subject}", subject)
            for _ in range(len(self._lines)):
                self._read_back(subject, done.answer["id"], text)

    def _set_and_look_back(self, subject: str, registered: Request) -> None:
        config, mode, versions = f"/config/{subject}", f"/mode/{subject}", f"/subjects/{subject}/versions"
        level = self._chance.choice(_LEVELS)
        done = [
            registered,
            self._ask(Kind.SET_CONFIG, "PUT", config, subject, {"compatibility": level}, value=level),
            self._ask(Kind.SET_MODE, "PUT", mode, subject, {"mode": _READ_ONLY}, value=_READ_ONLY),
        ]
        self._see(Kind.CONFIG, config, subject)
        if done[-1].done:
            text = schema(f"{subject.replace('-', '_')}_refused", 1)
            self._ask(Kind.REGISTER, "POST", versions, subject, {"schema": text}, schema=text)
        self._see(Kind.MODE, mode, subject)
        done.append(self._ask(Kind.DELETE_MODE, "DELETE", mode, subject))
        self._see(Kind.MODE, mode, subject)
        if self._chance.random() < _SHARE:
            done.append(self._ask(Kind.DELETE_CONFIG, "DELETE", config, subject))
            self._see(Kind.CONFIG, config, subject)
        offsets = [each.offset for each in done if each.done and each.offset is not None]
        after = max(-1, offsets[0] - _BACK)
        self._see(Kind.FEED, f"/changes?after={after}&subjectPrefix={subject}", subject, after=after)
        for kind, path in (
            (Kind.LIST, versions),
            (Kind.LATEST, f"{versions}/latest"),
            (Kind.CONFIG, config),
            (Kind.MODE, mode),
        ):
            # Just before or after the record of a write, or some records earlier.
            at = max(0, self._chance.choice(offsets) - self._chance.choice((1, 2, _BACK)))
            self._see(kind, f"{path}?atOffset={at}", subject, at=at)

    def _see(self, kind: Kind, path: str, subject: str, **about: Any) -> None:
        """Read through the next node if one fails; nothing depends on the answer."""
        for _ in range(len(self._lines)):
            if not self._ask(kind, "GET", path, subject, **about).failed:
                return

    def _register(self, subject: str, text: str) -> Request | None:
        """Register, through the next node if one fails, as a client behind a round robin does."""
        for _ in range(2 * len(self._lines)):
            request = self._ask(
                Kind.REGISTER, "POST", f"/subjects/{subject}/versions", subject, {"schema": text}, schema=text
            )
            if request.done:
                return request
            if not request.failed:
                raise AssertionError(f"{subject}: {request}")
            self.stopping.wait(0.1)
        self._history.given_up.append(f"register under {subject}")
        return None

    def _read_back(self, subject: str, schema_id: int, text: str) -> None:
        kind = self._chance.choice((Kind.BY_ID, Kind.LATEST, Kind.LIST))
        path = {
            Kind.BY_ID: f"/schemas/ids/{schema_id}",
            Kind.LATEST: f"/subjects/{subject}/versions/latest",
            Kind.LIST: f"/subjects/{subject}/versions",
        }[kind]
        about: dict[str, Any] = {"schema": text, "schema_id": schema_id} if kind is Kind.BY_ID else {}
        for _ in range(2 * len(self._lines)):
            if not self._ask(kind, "GET", path, subject, **about).failed:
                return
            self.stopping.wait(0.1)
        self._history.given_up.append(f"{kind.value} of {subject}")

    def _ask(
        self, kind: Kind, method: str, path: str, subject: str, body: Any = None, **about: Any
    ) -> Request:
        self._turn = (self._turn + 1) % len(self._lines)
        began = time.monotonic()
        answer, ended = self._lines[self._turn].ask(method, path, body)
        request = Request(kind, self._turn, subject, began, ended, **about, **answer)
        return self._history.add(request)


class Load:
    """Workers on all nodes, for a ``with`` block."""

    def __init__(
        self,
        lines: Callable[[], Sequence[Line]],
        history: History,
        *,
        seed: int,
        workers: int = 8,
        name: str = "",
    ) -> None:
        """``lines`` returns new lines, one to each node."""
        self._workers = [
            Worker(f"{name}s{seed}w{number}", lines(), history, random.Random(f"{seed} {number}"))
            for number in range(workers)
        ]

    def __enter__(self) -> Self:
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Return when all have ended."""
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join(6 * REQUEST_TIMEOUT_S)
