"""Waits for servers that are announced at once: one that never answers would otherwise look like a hang."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deploy.local.process import Process
from registry.base.config.loading import Settings
from registry.base.observe import progress
from registry.node.startup.open import open_encoder
from registry.store.create import NewStore, Origin
from registry.store.layout import State
from registry.store.lmdb import Store
from tests.support.running import ROOT, free_port, until

# Less than the time after which the commands give up, which is announced too.
TOLD_S = 25.0
MAP = 16 << 20


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """Return the address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def check_announcement(command: str, flags: tuple[str, ...], expected: str, folder: Path) -> None:
    """Fail unless a command tells what it waits for, and goes on waiting."""
    verb, *more = command.split(" --")
    words = [*verb.split(), *(word for flag in more for word in f"--{flag}".split())]
    if verb == "serve":
        words += ["--listen", f"127.0.0.1:{free_port()}"]
    line = [sys.executable, "-m", "registry", *words, *flags, "--data", str(folder / "data")]
    process = Process(command, line, folder / "output.txt")
    credentials = {"AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "password"}
    process.environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **credentials}
    process.start()
    try:
        until(lambda: expected in process.output, TOLD_S, "the line")
        assert process.running
        assert "does not answer" not in process.output
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("snapshot list", "registrar: waiting for Kafka at {}, at most 5 s"),
        ("snapshot build", "registrar: waiting for Kafka at {}, at most 30 s"),
        ("serve --readers 0", "waiting for Kafka at {}; there is no store yet, so nothing is served"),
    ],
)
def test_that_kafka_is_waited_for_is_reported(
    command: str, expected: str, silent: str, tmp_path: Path
) -> None:
    check_announcement(command, ("--kafka", silent), expected.format(silent), tmp_path)


@pytest.mark.parametrize("command", ["snapshot list", "snapshot restore"])
def test_that_an_object_store_is_waited_for_is_reported(command: str, silent: str, tmp_path: Path) -> None:
    location = f"s3://bucket/x?region=eu&scheme=http&endpoint_override={silent}"
    expected = "registrar: waiting for the snapshots in s3://bucket/x"
    check_announcement(command, ("--snapshots", location), expected, tmp_path)


@pytest.mark.long
def test_that_the_keyset_is_waited_for_is_reported(
    silent: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A node with a store waits for its log, and then for the keyset on the same brokers."""
    with NewStore(tmp_path / "store-1", MAP) as new:
        new.finish(Origin(1, "log", State(0, 0), 0))
    settings = Settings(kafka=silent, metadata_encoder_secret="a secret of this test", data=tmp_path)
    with closing(Store(tmp_path / "store-1", MAP)) as store:
        assert open_encoder(settings, store) is not None
    assert f"waiting for the keyset of sensitive metadata in _schema_encoders at {silent}" in caplog.text


def test_it_is_reported_in_the_first_second() -> None:
    assert progress.ANNOUNCE_AFTER_S < 1
