"""An event loop of asyncio on the simulation's clock, and what blocking callers need of it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import heapq
import inspect
import math
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from .world import Killed, Process, Task, World

if TYPE_CHECKING:
    from .sockets import Endpoint

T = TypeVar("T")
# The probability that no other task runs between two rounds of callbacks.
_GO_ON = 0.75
# More than any coroutine waits for while it ends.
_LAST_WAITS = 20


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one process. One turn of its task runs all callbacks that are due, in their order."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        # True if nothing runs on it any more, though its process goes on.
        self.stopped = False
        # Opens its connections to other nodes.
        self.sockets: Endpoint
        process.when_killed.append(self._close)
        self._task = world.spawn(process, self._run)

    def _run(self) -> None:
        while not self.stopped:
            while self._timers and self._timers[0][2].cancelled():
                heapq.heappop(self._timers)
            wait_s = self._timers[0][0] - self._world.now if self._timers else math.inf
            if not self._ready and wait_s > 0:
                self._world.sleep(wait_s)
            elif not self._world.likely(_GO_ON):
                self._world.pause()
            self.run_once()

    def _close(self) -> None:
        """Forget what was to be done. What coroutines do while they end has no effect any more."""
        for task in list(self._tasks):
            _end(task.get_coro())
        self._ready.clear()
        self._timers.clear()

    def run_once(self) -> None:
        """Run what is due now."""
        while self._timers and self._timers[0][0] <= self._world.now:
            self._ready.append(heapq.heappop(self._timers)[2])
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(None)

    # What asyncio's tasks, futures and time-outs call.

    def time(self) -> float:
        return self._world.now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._process.dead:
            self._ready.append(handle)
            self._task.wakes_at = 0.0
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._world.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, handle))
        self._task.wakes_at = min(self._task.wakes_at, when)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self._tasks.add(task)
        if self._process.dead:
            _end(coro)
        return task

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run a blocking function in a task of its own."""
        answer: asyncio.Future[T] = self.create_future()

        def run() -> None:
            try:
                found = func(*args)
            except Exception as error:  # for who waits, like an executor
                self.call_soon(_settle, answer, answer.set_exception, error)
            else:
                self.call_soon(_settle, answer, answer.set_result, found)

        self._world.spawn(self._process, run)
        return answer

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        return await self.sockets.create_connection(protocol_factory, f"{host}:{port}")

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **options: Any
    ) -> Any:
        """Accept connections; ``sock`` is the address."""
        return await self.sockets.create_server(protocol_factory, sock)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Let an error of a callback end the history; tasks of killed processes are of no interest."""
        if "handle" in context:
            raise context["exception"]

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._process.dead

    def is_closed(self) -> bool:
        return self._process.dead

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave it in the heap: a cancelled timer is skipped."""


def _end(coroutine: Any) -> None:
    """End a coroutine of a killed process now, not when Python collects it; some wait while they end.

    Libraries ask for the running loop then, which there is none of.
    """
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()
    for _ in range(_LAST_WAITS):
        if inspect.getcoroutinestate(coroutine) != inspect.CORO_SUSPENDED:
            return
        with suppress(Killed, StopIteration, RuntimeError, AttributeError):
            coroutine.throw(Killed())


async def let_pass(seconds: float) -> None:
    """Let simulated time pass."""
    loop = asyncio.get_running_loop()
    passed: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, lambda: passed.done() or passed.set_result(None))
    try:
        await passed
    finally:
        timer.cancel()


def _settle(answer: asyncio.Future[Any], settle: Callable[[Any], None], found: object) -> None:
    if not answer.done():
        settle(found)


class SimulatedLoopHost:
    """Runs coroutines of one process for its blocking tasks; see ``EventLoopHost`` in the product."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self.loop = SimulatedLoop(world, process)

    def run(self, call: Coroutine[Any, Any, T], timeout_s: float | None) -> T:
        """Return the result of ``call``; the calling task yields meanwhile."""
        task = self.loop.create_task(call)
        if not self._world.until(task.done, math.inf if timeout_s is None else timeout_s):
            self.loop.call_soon(task.cancel)
            raise TimeoutError
        if task.cancelled():
            raise concurrent.futures.CancelledError
        result: T = task.result()
        return result

    def stop(self, last: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """Run ``last`` and end the loop."""
        if self._process.dead:
            last.close()
        else:
            self.run(last, timeout_s)
            self.loop.stopped = True
            self.loop.call_soon(lambda: None)


class SimulatedCondition:
    """Stands for ``threading.Condition``: tasks do not interrupt each other, so nothing is locked.

    A task that waits looks at its predicate again only when it is notified, as a thread does.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: dict[Task, None] = {}

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        """Do nothing: nothing was locked."""

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        """Yield until the predicate is true."""
        task = self._world.current
        self._waiting[task] = None
        try:
            found: T = self._world.until(predicate, math.inf if timeout is None else timeout, looks=False)
        finally:
            del self._waiting[task]
        return found

    def notify_all(self) -> None:
        """Let the tasks that wait look at their predicates when this one yields."""
        for task in self._waiting:
            task.notified = True

    notify = notify_all
