"""One client's connection: requests in, answers out, in their order.

Requests are received whole before they are served, so that a slow sender occupies nothing but its
connection. One is served at a time. What a client has sent ahead stays unparsed until the requests before it
are answered; nothing more is read from the socket meanwhile.

``deadline`` is the event-loop time at which the connection has used up its time; the server checks it a few
times a second. A client that has read or sent enough by then gets as much time again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

from registry.base.processes.tls_connections import ConnectionCertificate, certificate_of
from registry.domain.errors import BAD_REQUEST, BODY_TIMEOUT, UNAVAILABLE, ErrorKind, RegistryError

from .exchange import Exchange
from .inflow import Inflow
from .messages import (
    LARGE_ANSWER_BYTES,
    Answer,
    Client,
    Request,
    Running,
    encode_answer,
    observe_answer,
    persistence,
    refusal,
)
from .output import HeldAnswer, Output
from .parsing import BROKEN, Stage
from .reading import RequestReader
from .service import Endpoint, Service

HEADER_TIMEOUT = ErrorKind(408, "The request's headers did not arrive in time")
_IDLE = Stage.IDLE  # Read with every request, and looking up a member of an enumeration takes longer.
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_log = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """The protocol of one connection.

    ``on_open`` is called with the connection and returns false if it is to be refused; ``on_close`` is called
    when it has closed.
    """

    def __init__(
        self,
        service: Service,
        endpoint: Endpoint,
        on_open: Callable[[Connection], bool],
        on_close: Callable[[Connection], None],
    ) -> None:
        self._service = service
        self.endpoint = endpoint
        self._on_open = on_open
        self._on_close = on_close
        self._limits = service.limits
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._reader = RequestReader(service.limits)
        self._inflow: Inflow = cast("Inflow", None)
        self.output: Output = cast("Output", None)
        self._serving: object = None  # the task or callback that answers the current request
        self._body_mark = 0  # body bytes received when the deadline was set
        self._lingering = False
        self.deadline = math.inf
        self.client = Client()
        self.certificate: ConnectionCertificate | None = None
        self.withdrawn = False
        self.closed = False
        self.gone: asyncio.Future[None] | None = None

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock, or refuse the connection if there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        service, reader = self._service, self._reader
        self._inflow = Inflow(self._transport, reader, service.intake, service.turns, self._go_on)
        self.output = Output(self._transport, service.unread, reader)
        if self.endpoint.tls is not None:
            self.certificate = certificate_of(transport, self.endpoint.tls)
        self.client = _client(transport, self.certificate)
        self.deadline = service.now + self._limits.header_timeout_s
        if not self._on_open(self):
            self._refuse_rest(UNAVAILABLE("There are too many connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Free everything; a request that is being served runs to its end, and its answer is dropped."""
        self.closed = True
        self._reader.close()
        self._inflow.close()
        self.output.close()
        if self._serving is None:
            self._inflow.release_room()
        elif isinstance(self._serving, HeldAnswer):
            self._inflow.release_room()
            self._serving.close()
        self._on_close(self)
        if self.gone is not None and not self.gone.done():
            self.gone.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Parse the data and serve complete requests."""
        reader = self._reader
        request = reader.read_whole(data)
        if request is None:
            stage = reader.parser.stage
            reader.take(data)
            self._inflow.yield_turn(len(data))
            self._serve_received(stage)
        elif self._serving or self.output.behind or self._service.large_answers.size(request.target):
            reader.requests.append(request)
            self._serve_next()
        else:
            self._serve(request, time.perf_counter())

    def _go_on(self) -> None:
        """Parse data that the client has sent ahead."""
        self._reader.go_on()
        self._serve_received(None)

    def _serve_received(self, before: Stage | None) -> None:
        """Serve parsed requests, or give the client time to send the rest of one."""
        self._serve_next()
        parser = self._reader.parser
        if self._serving is None and parser.stage is not before:
            self._body_mark = 0
            self._set_deadline()
            if parser.continue_wanted:
                parser.continue_wanted = False
                self.output.write(_CONTINUE)

    def eof_received(self) -> bool:
        """Handle a client that closed its sending side; it may still read its answers."""
        if self._lingering or isinstance(self._serving, HeldAnswer):
            return False  # who listens and does not send any more has most likely gone
        if self._reader.parser.stage is not Stage.IDLE:
            self._refuse_rest(BAD_REQUEST(BROKEN))
        self._reader.closed = True
        # A TLS connection cannot be half closed: its end is the end of both directions.
        half_closed = self._transport.can_write_eof()
        return half_closed and (bool(self._reader.requests) or self._serving is not None)

    def pause_writing(self) -> None:
        """Handle a client that reads more slowly than we write."""
        self.output.pause()
        self._set_deadline()

    def resume_writing(self) -> None:
        """Handle a client that has caught up."""
        self.output.resume()
        self._set_deadline()
        if self._serving is None:
            self._serve_next()
        elif isinstance(self._serving, HeldAnswer):
            self._serving.on_drained()

    # --- serving

    def _serve_next(self) -> None:
        """Serve waiting requests until one is not answered at once, or the client does not read."""
        waiting = self._reader.requests
        while waiting and self._serving is None and not (self.output.behind or self.closed):
            request = waiting.popleft()
            if isinstance(request, RegistryError):
                self._refuse(request)
                return
            began = time.perf_counter()
            size = self._service.large_answers.size(request.target)
            if size is None:
                self._serve(request, began)
            else:
                self._begin(request)
                self._service.turns.call(size, partial(self._serve_in_turn, request, began))
        self._inflow.update(serving=self._serving is not None)

    def _serve_in_turn(self, request: Request, began: float) -> None:
        self._serving = None
        if self.closed:
            self._inflow.release_room()
        else:
            self._serve(request, began)
            self._serve_next()

    def _serve(self, request: Request, began: float) -> None:
        answer = self._service.fast_path(request, self.client)
        if isinstance(answer, Answer):
            self._send(request, answer, began)
        elif answer is None or isinstance(answer, Coroutine):
            self._start(request, began, answer)
        else:
            self._begin(answer)
            answer(partial(self._send_deferred, request, began))

    def _start(self, request: Request, began: float, running: Running | None) -> None:
        """Let the application answer, in a task."""
        if running is None:
            work: Coroutine[Any, Any, None] = Exchange(self._service, self, request, began).run()
        else:
            work = self._finish(request, began, running)
        self._begin(self._service.loop.create_task(work))

    async def _finish(self, request: Request, began: float, running: Running) -> None:
        try:
            answer = await running
        except Exception:
            method, path = request.method.decode(), request.path.decode("latin-1")
            _log.exception("unexpected error in %s %s", method, path)
            headers = self._service.common_headers(request.headers)
            answer = refusal(RegistryError(500, "Internal Server Error"), headers)
        if self.closed:  # it was served all the same
            self._service.observe(
                observe_answer(request, self.client.host, answer, time.perf_counter() - began)
            )
        self._send_deferred(request, began, answer)

    def _begin(self, serving: object) -> None:
        self._serving = serving
        self.deadline = math.inf

    def _send_deferred(self, request: Request, began: float, answer: Answer | Running | None) -> None:
        """Send an answer that was deferred, or let the application answer."""
        if not isinstance(answer, Answer):
            self._start(request, began, answer)
            return
        self._serving = None
        if self.closed:
            self._inflow.release_room()
        else:
            self._send(request, answer, began)
            self._serve_next()

    def _send(self, request: Request, answer: Answer, began: float) -> None:
        service = self._service
        if len(answer.body) > LARGE_ANSWER_BYTES:
            service.large_answers.note(request.target, len(answer.body))
            exchange = Exchange(service, self, request, began)
            self._begin(service.loop.create_task(exchange.send(answer)))
            return
        last = self.is_last(request)
        _, _, _, received, version, _ = request
        if last or version == "1.0":
            self.output.write(encode_answer(answer, service.date_line, persistence(request, last)))
        else:
            self.output.write(encode_answer(answer, service.date_line))
        service.observe(observe_answer(request, self.client.host, answer, time.perf_counter() - began))
        if last or received:
            self._after(last)
        else:
            self._set_deadline()

    def is_last(self, request: Request) -> bool:
        """Return true if the connection closes after the answer to ``request``."""
        reader = self._reader
        if not request.keep_alive or self.withdrawn:
            return True
        return (reader.closed or self._service.stopping) and not (reader.requests or reader.ahead_bytes)

    def continue_after(self, last: bool) -> None:
        """Continue after an exchange has answered; close if its answer was the ``last``."""
        self._serving = None
        self._after(last)
        self._serve_next()

    def hold(self, held: HeldAnswer) -> None:
        """Keep an answer open until it is ended; later requests of the connection wait."""
        self._begin(held)

    def _after(self, last: bool) -> None:
        self._inflow.release_room()
        if last or self.withdrawn:
            self._close()
        self._set_deadline()

    def _close(self) -> None:
        """Close the connection once everything is written; what was sent ahead is not served."""
        self._reader.end()
        self._reader.requests.clear()
        self._transport.close()

    # --- refusing, deadlines, closing

    def _refuse_rest(self, error: RegistryError) -> None:
        """Answer the requests that came before, then send ``error`` and stop reading."""
        self._reader.refuse(error)
        if self._serving is None:
            self._serve_next()

    def _refuse(self, error: RegistryError) -> None:
        answer = refusal(error, self._service.common_headers(self._reader.parser.headers))
        self._inflow.release_room()
        self.output.write(encode_answer(answer, self._service.date_line, b"connection: close\r\n"))
        self._service.observe(observe_answer(None, self.client.host, answer, 0.0))
        # Closing now would reset the connection of a client that is still sending, and lose the refusal.
        self._lingering = True
        self._set_deadline()
        self._inflow.update(serving=False)
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _set_deadline(self) -> None:
        stage = self._reader.parser.stage
        if stage is _IDLE and self._serving is None and not (self.output.behind or self._lingering):
            self.deadline = self._service.idle_deadline
            return
        limits, now = self._limits, self._service.now
        if self._lingering:
            self.deadline = now + limits.linger_timeout_s
        elif self.output.behind:
            self.deadline = now + limits.body_timeout_s
        elif self._serving is not None:
            self.deadline = math.inf
        elif self._inflow.waits_for_room:
            self.deadline = now + limits.room_timeout_s
        elif stage is Stage.BODY:
            self.deadline = now + limits.body_timeout_s
        else:
            self.deadline = now + limits.header_timeout_s

    def overdue(self) -> None:
        """Give a client that kept up the minimum rate more time, and end the connection of any other."""
        stage = self._reader.parser.stage
        if self._inflow.waits_for_room:
            self._refuse_rest(UNAVAILABLE("Too many large requests at once"))
        elif self._has_progressed():
            self.deadline = self._service.now + self._limits.body_timeout_s
        elif self._lingering or self.output.behind or self._reader.closed:
            self.output.abort()
        elif stage is Stage.BODY:
            self._refuse_rest(BODY_TIMEOUT())
        elif stage is Stage.HEAD:
            self._refuse_rest(HEADER_TIMEOUT())
        else:
            self._transport.close()

    def _has_progressed(self) -> bool:
        """Return true if the client has kept up the minimum rate since the deadline was set."""
        least = self._limits.rate_bytes_min * self._limits.body_timeout_s
        if self.output.behind and not self._lingering:
            return self.output.read_since() >= least
        if self._reader.parser.stage is Stage.BODY:
            before, self._body_mark = self._body_mark, self._reader.parser.body_bytes
            if self._inflow.holds_up_others:
                # Otherwise a few clients that send next to nothing would keep all others from sending.
                least = max(least, self._reader.parser.body_bytes_max / 2)
            return self._body_mark - before >= least
        return False

    def stop(self) -> None:
        """Close if idle, and end an answer that is held; otherwise the last answer closes the connection."""
        if isinstance(self._serving, HeldAnswer):
            self._serving.end()
        elif self._reader.idle and not (self._serving or self._lingering):
            self._transport.close()

    def withdraw(self) -> None:
        """Serve no further request, because the client's certificate no longer counts."""
        self.withdrawn = True
        if isinstance(self._serving, HeldAnswer):
            self._serving.end()
        elif self._serving is None:
            self._close()


def _client(transport: asyncio.BaseTransport, certificate: ConnectionCertificate | None) -> Client:
    peer = transport.get_extra_info("peername")
    host, port = peer[:2] if isinstance(peer, tuple) else ("", 0)
    return Client(host, port, certificate.verified.principal if certificate else "")
