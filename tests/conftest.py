"""Fixtures of several folders of tests."""

from __future__ import annotations

import gc
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import httpx
import hypothesis
import pytest

from deploy.local.broker import COMPACTS_SOON, Broker
from deploy.local.process import outputs
from deploy.local.zookeeper import ZooKeeper
from tests.support.process_logs import ProcessLogs, unexpected
from tests.support.running import Registry, Served, free_port, until

# The tests start hundreds of Python processes. Where this variable is set, as in many images, each of them
# would compile its 300 modules again, which is half of what its start costs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_default_context = cache(httpx.create_ssl_context)


def _ssl_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    """Return one context for all clients that are given none.

    For each of them, and so for each ``httpx.get``, also without TLS, httpx would read the certificates of
    all authorities again: 28 ms of CPU time, most of what a test that waits for an answer would take.
    """
    create = _default_context if verify is True and not cert else httpx.create_ssl_context
    return create(verify, cert, trust_env)


httpx._transports.default.create_ssl_context = _ssl_context  # type: ignore[attr-defined]

# The same examples in every run, however busy the machine is; "--hypothesis-profile wide" looks for new ones.
# More of the same would find nothing in the next run that they did not find in the last.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40)
# For make coverage: what a property reaches, it reaches with a few examples.
hypothesis.settings.register_profile("few", derandomize=True, deadline=None, max_examples=5)
hypothesis.settings.register_profile("wide", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile("repeatable")

# A shell starts its background processes with SIGINT ignored, and the programs that tests start inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what the docs should say instead of comparing"
    )
    parser.addoption(
        "--registry", metavar="URL", help="try the clients against the server at URL instead of ours"
    )
    parser.addoption(
        "--census-messages", type=int, default=300_000, help="messages in each topic of the large census"
    )
    parser.addoption("--console-nodes", type=int, default=0, help="run the console over so many nodes")
    parser.addoption("--fault-rounds", type=int, default=1, help="rounds of faults by chance")
    parser.addoption("--fault-seed", type=int, help="seed of the first round; by default the time of day")
    parser.addoption(
        "--histories", type=Path, metavar="FOLDER", help="keep the recorded histories of faults here"
    )
    parser.addoption("--faults", type=int, default=3, help="faults in a round")
    parser.addoption("--fault-minutes", type=float, default=0.0, help="minutes of load without faults")


_logs = ProcessLogs()


def pytest_collection_finish() -> None:
    """Leave what was imported and collected, which lives to the end, out of the search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail a test after which a process has logged an error that the test did not ask for.

    What is shared and ends with the test, because it is the last that uses it, has ended by then.
    """
    try:
        yield
    finally:
        found = _logs.new_errors([*outputs])
    patterns = [each for marker in item.iter_markers("logs_errors") for each in marker.args]
    if errors := unexpected(found, patterns):
        pytest.fail("a process logged what the test did not ask for:\n" + "\n".join(errors), pytrace=False)


@pytest.fixture(scope="session")
def registry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Start one registry with two readers for all tests, each with its own subjects and contexts."""
    if url := request.config.getoption("--registry"):
        yield Served(url.rstrip("/"))
        return
    # Tests that request snapshots of it do not want CPU time spent on them.
    flags = ("--readers", "2", "--snapshots-builder", "none")
    running = Registry(tmp_path_factory.mktemp("registry") / "data", *flags).wait()
    yield running
    assert running.stop() == 0, running.output


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start one broker for all tests that use their own topics and groups and leave it running."""
    # It is sometimes frozen, but never killed: once thawed, it can register again immediately.
    settings = {"broker.session.timeout.ms": "60000", **COMPACTS_SOON}
    with Broker(tmp_path_factory.mktemp("kafka"), settings=settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Start one ZooKeeper for all tests that use their own chroot and leave it running."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Return the URI of a bucket on a server that speaks S3."""
    port = free_port()
    environment = os.environ | {"MOTO_PORT": str(port)}
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-p", str(port)]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def made() -> bool:
        try:
            bucket = Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
            with urlopen(bucket, timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            assert server.poll() is None
            return False

    try:
        until(made, 60, "the server to make a bucket")
        where = f"endpoint_override={quote(f'127.0.0.1:{port}', safe='')}&scheme=http&region=us-east-1"
        yield f"s3://user:password@bucket/snapshots?{where}"
    finally:
        server.kill()
        server.wait()
