"""Reads by id with authentication and with TLS, compared with plain ones in the same run; prints ratios.

    python bench/security.py [--seconds 2] [--rounds 7] [--folder /tmp]

Two registries with one reader each, one of them with users and bearer tokens, the other one with a plain and
a secured listener, and nginx with one process, which answers the same body, plain and secured. Rounds
take turns under the same load of wrk. What counts is the CPU time of the reader for one request, the least of
all rounds of each, because other work of the machine changes rates more than authentication does.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import httpx

from bench.command_line import run_in_folder
from bench.load import fill, nginx, wrk
from bench.process_costs import Processes
from registry.security.authentication.passwords import hash_password
from tests.process.test_lifecycle import children
from tests.support.certificates import Authority
from tests.support.running import Registry, free_port
from tests.support.token_issuer import AUDIENCE, IssuerKey, claims, signed

SCHEMAS = 1000
ISSUER = "https://issuer.example"
PASSWORD = "correct horse battery"
_LUA = """
wrk.headers["Authorization"] = {authorization}
function request() return wrk.format("GET", "/schemas/ids/" .. math.random(1, {count})) end
"""


class Side:
    """A server under load with one kind of credentials; ``pid``: of the process that answers."""

    def __init__(self, name: str, url: str, pid: int, authorization: str, folder: Path) -> None:
        self.name = name
        self._url = url
        self._processes = Processes(pid)
        self._script = folder / f"{name}.lua".replace(" ", "-")
        value = json.dumps(authorization) if authorization else "nil"
        self._script.write_text(_LUA.format(authorization=value, count=SCHEMAS))
        headers = {"Authorization": authorization} if authorization else {}
        # The first look at credentials takes longer.
        httpx.get(f"{url}/schemas/ids/1", headers=headers, timeout=60, verify=False).raise_for_status()
        self.cost_us: list[float] = []
        self.per_s: list[float] = []

    def load(self, seconds: int) -> None:
        """Send requests for some seconds and note what they cost."""
        before = self._processes.cpu_s()
        found = wrk(self._url, self._script, seconds)
        assert not found.errors
        self.per_s.append(found.per_s)
        self.cost_us.append((self._processes.cpu_s() - before) / (found.per_s * seconds) * 1e6)


def reader_of(registry: Registry) -> int:
    """Return the process that answers."""
    return next(pid for pid, module in children(registry).items() if "reader" in module)


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
    tls = Authority().issue().write(folder, "server")
    plain_port, tls_port = free_port(), free_port()
    secured = (
        *("--listeners", f"http://127.0.0.1:{plain_port},https://127.0.0.1:{tls_port}"),
        *("--tls-certificate", str(tls[0]), "--tls-key", str(tls[1])),
    )
    with ExitStack() as stack:
        registries = []
        for name, flags, port in (("open", secured, plain_port), ("guarded", guarded, free_port())):
            (folder / name).mkdir()
            fill(folder / name, SCHEMAS)
            registry = Registry(folder / name, "--readers", "1", *flags, port=port)
            stack.callback(registry.stop)
            registry.headers["Authorization"] = basic
            registries.append(registry.wait())
        first, second = registries
        body = httpx.get(f"{first.url}/schemas/ids/1").content
        sides = [
            Side("open", first.url, reader_of(first), "", folder),
            Side("Basic", second.url, reader_of(second), basic, folder),
            Side(f"token of {len(token)} bytes", second.url, reader_of(second), f"Bearer {token}", folder),
            Side("TLS", f"https://127.0.0.1:{tls_port}", reader_of(first), "", folder),
        ]
        for name, pair in (("nginx", None), ("nginx, TLS", tls)):
            place = folder / f"nginx-{'s' * bool(pair)}"
            place.mkdir()
            url = stack.enter_context(nginx(place, body, pair))
            pid = int((place / "nginx.pid").read_text())
            sides.append(Side(name, url, pid, "", folder))
        for _ in range(given.rounds):
            for side in sides:
                side.load(given.seconds)
    least = {side.name: min(side.cost_us) for side in sides}
    print("| | CPU, least | of open | requests/s |\n| --- | --- | --- | --- |")
    for side in sides:
        cost = least[side.name]
        print(f"| {side.name} | {cost:.1f} µs | {cost / least['open']:.2f} | {max(side.per_s):,.0f} |")
    plain, with_tls = least["nginx"] / least["open"], least["nginx, TLS"] / least["TLS"]
    print(f"\nCPU of nginx for a constant, of the registry's: plain {plain:.2f}, with TLS {with_tls:.2f}")


if __name__ == "__main__":
    main()
