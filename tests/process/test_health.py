"""``registrar health``: it asks where ``registrar serve`` with the same settings serves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.running import ROOT, Registry, free_port


def asked(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "registry", "health", *flags]
    own = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Serve on all addresses, by TLS with client certificates and in the clear; return the environment."""
    folder = tmp_path_factory.mktemp("health")
    authority = Authority()
    certificate, key = authority.issue().write(folder, "server")
    listeners = f"https://0.0.0.0:{free_port()},http://127.0.0.1:{(plain := free_port())}"
    environment = {
        "REGISTRAR_LISTENERS": listeners,
        "REGISTRAR_TLS_CERTIFICATE": str(certificate),
        "REGISTRAR_TLS_KEY": str(key),
        "REGISTRAR_TLS_CLIENT_CA": str(authority.write(folder, "ca")),
        "REGISTRAR_TLS_CLIENT_AUTH": "required",
    }
    flags = [word for name, value in environment.items() for word in (flag_of(name), value)]
    registry = Registry(folder / "data", "--readers", "1", *flags, port=plain).wait()
    yield environment
    registry.kill()


def flag_of(variable: str) -> str:
    return "--" + variable.removeprefix("REGISTRAR_").lower().replace("_", "-")


def test_a_registry_that_has_started_is_well(served: dict[str, str]) -> None:
    done = asked(**served)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("check", ["live", "started", "ready", "ready-for-writes"])
def test_tls_alone_is_asked_too(served: dict[str, str], check: str) -> None:
    secured = served["REGISTRAR_LISTENERS"].partition(",")[0]
    done = asked("--check", check, **(served | {"REGISTRAR_LISTENERS": secured}))
    assert done.returncode == 0, done.stderr


def test_a_port_on_which_nobody_serves_is_reported(tmp_path: Path) -> None:
    done = asked(REGISTRAR_LISTEN=f"0.0.0.0:{(port := free_port())}")
    assert done.returncode == 1
    assert f"http://127.0.0.1:{port} cannot be reached: " in done.stderr


def test_settings_that_are_not_valid_give_no_verdict() -> None:
    assert asked(REGISTRAR_LISTEN="nowhere").returncode == 2
