"""The warning about a port that other machines can reach, at the start and in ``/node``."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.running import PATIENT, Registry, free_port


def test_a_reachable_port_without_protection_is_warned_of_once(tmp_path: Path) -> None:
    port = free_port()
    listeners = f"http://0.0.0.0:{port}"
    registry = Registry(tmp_path / "data", "--listeners", listeners, "--readers", "1", port=port)
    try:
        registry.wait()
        (warning,) = httpx.get(f"{registry.url}/node", timeout=PATIENT).json()["warnings"]
        assert warning.startswith(f"other machines can reach {listeners}: http is not encrypted (set ")
        assert registry.output.count(warning) == 1
    finally:
        registry.kill()
