"""Reads by id with authentication, compared with an open registry in the same run; prints ratios.

    python bench/security.py [--seconds 2] [--rounds 7] [--folder /tmp]

Two registries with one reader each, one of them with users and bearer tokens. Rounds take turns under the
same load of wrk. What counts is the CPU time of the reader for one request (`/proc`), the least of all
rounds of each, because other work of the machine changes rates more than authentication does.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import httpx

from bench.command_line import run_in_folder
from bench.load import fill, wrk
from registry.security.authentication.passwords import hash_password
from tests.process.test_lifecycle import children
from tests.support.running import Registry
from tests.support.token_issuer import AUDIENCE, IssuerKey, claims, signed

SCHEMAS = 1000
ISSUER = "https://issuer.example"
PASSWORD = "correct horse battery"
_TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")
_LUA = """
wrk.headers["Authorization"] = {authorization}
function request() return wrk.format("GET", "/schemas/ids/" .. math.random(1, {count})) end
"""


class Side:
    """A registry under load with one kind of credentials."""

    def __init__(self, name: str, registry: Registry, authorization: str, folder: Path) -> None:
        self.name = name
        self._url = registry.url
        self._reader = next(pid for pid, module in children(registry).items() if "reader" in module)
        self._script = folder / f"{name}.lua"
        value = json.dumps(authorization) if authorization else "nil"
        self._script.write_text(_LUA.format(authorization=value, count=SCHEMAS))
        headers = {"Authorization": authorization} if authorization else {}
        httpx.get(f"{self._url}/schemas/ids/1", headers=headers, timeout=60).raise_for_status()
        self.cost_us: list[float] = []
        self.per_s: list[float] = []

    def load(self, seconds: int) -> None:
        """Send requests for some seconds and note what they cost."""
        before = self._cpu_us()
        found = wrk(self._url, self._script, seconds)
        assert not found.errors
        self.per_s.append(found.per_s)
        self.cost_us.append((self._cpu_us() - before) / (found.per_s * seconds))

    def _cpu_us(self) -> float:
        fields = Path(f"/proc/{self._reader}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_US


def main() -> None:
    run_in_folder(__doc__, run, seconds=2, rounds=7)


def run(given: argparse.Namespace, folder: Path) -> None:
    key = IssuerKey("bench", "RS256")
    users, keys = folder / "users", folder / "keys.json"
    users.write_text(f"alice:{hash_password(PASSWORD)}:team-a,team-b\n")
    keys.write_text(json.dumps({"keys": [key.public()]}))
    basic = "Basic " + base64.b64encode(f"alice:{PASSWORD}".encode()).decode()
    groups = [f"group-{number}" for number in range(20)]
    token = signed(key, claims(ISSUER, groups=groups, scope="openid email profile"))
    guarded = (
        *("--users", str(users), "--jwt-jwks", str(keys)),
        *("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE),
    )
    registries = []
    try:
        for name, flags in (("open", ()), ("guarded", guarded)):
            (folder / name).mkdir()
            fill(folder / name, SCHEMAS)
            registry = Registry(folder / name, "--readers", "1", *flags)
            registries.append(registry)
            registry.headers["Authorization"] = basic
            registry.wait()
        first, second = registries
        sides = [
            Side("open", first, "", folder),
            Side("basic", second, basic, folder),
            Side("token", second, f"Bearer {token}", folder),
        ]
        for _ in range(given.rounds):
            for side in sides:
                side.load(given.seconds)
        least = min(sides[0].cost_us)
        print(f"a token of {len(token)} bytes; the least CPU of {given.rounds} rounds for one request by id:")
        for side in sides:
            cost, rate = min(side.cost_us), max(side.per_s)
            print(f"  {side.name:6} {cost:6.1f} us, {cost / least:.3f} of open; {rate:7.0f} requests/s")
    finally:
        for registry in registries:
            registry.stop()


if __name__ == "__main__":
    main()
