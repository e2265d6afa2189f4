"""An object store for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.running import free_port, until


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """URI of a bucket of a server that speaks S3."""
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
