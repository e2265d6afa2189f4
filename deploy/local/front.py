"""The load balancer in front of several nodes: the shipped examples for nginx and HAProxy, on loopback."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from .process import Process, free_port, listens

DEPLOY = Path(__file__).parent.parent
NGINX = DEPLOY / "nginx" / "registrar.conf"
HAPROXY = DEPLOY / "haproxy.cfg"
# Packages install servers here, which is not on every PATH.
PLACES = "/usr/sbin:/usr/local/sbin"

# The rest of an nginx configuration around the shipped example; everything it writes stays in its folder.
AROUND_NGINX = """daemon off;
pid nginx.pid;
worker_processes 1;
error_log stderr warn;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include registrar.conf;
}
"""


class Front(Process):
    """nginx or HAProxy in front of ``nodes`` (each ``HOST:PORT``), configured by the shipped example."""

    def __init__(self, program: str, folder: Path, nodes: Sequence[str], *, port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        path = find_program(program)
        assert path is not None, f"{program} is not installed"
        prepare = _nginx if program == "nginx" else _haproxy
        command = [path, *prepare(folder, nodes, f"127.0.0.1:{self.port}")]
        super().__init__(f"{program} on {self.port}", command, folder / "output.txt")

    def ready(self) -> bool:
        """Return true if it accepts clients."""
        return listens(self.port)


def find_program(program: str) -> str | None:
    """Return the path of ``nginx`` or ``haproxy``, or ``None`` if it is not installed."""
    return shutil.which(program) or shutil.which(program, path=PLACES)


def find_proxy() -> str | None:
    """Return the first of ``nginx`` and ``haproxy`` that is installed."""
    return next(filter(find_program, ("nginx", "haproxy")), None)


def with_nodes(example: str, nodes: Sequence[str]) -> str:
    """Return the example with one line for each of ``nodes`` in place of the lines for its own three."""

    def own(lines: re.Match[str]) -> str:
        first = lines.group().splitlines(keepends=True)[0]
        return "".join(
            first.replace("registrar-1:8081", node).replace("registrar-1", f"registrar-{number}")
            for number, node in enumerate(nodes, 1)
        )

    return re.sub(r"(^ *server .*registrar-\d:8081.*\n)+", own, example, flags=re.MULTILINE)


def _nginx(folder: Path, nodes: Sequence[str], listen: str) -> list[str]:
    example = with_nodes(NGINX.read_text(encoding="utf-8"), nodes)
    (folder / "registrar.conf").write_text(
        example.replace("listen 8081;", f"listen {listen};"), encoding="utf-8"
    )
    # As another user than root, its workers could not write into the folder.
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(user + AROUND_NGINX, encoding="utf-8")
    return ["-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]


def _haproxy(folder: Path, nodes: Sequence[str], listen: str) -> list[str]:
    example = with_nodes(HAPROXY.read_text(encoding="utf-8"), nodes)
    (folder / "haproxy.cfg").write_text(example.replace("bind :8081", f"bind {listen}"), encoding="utf-8")
    return ["-db", "-f", str(folder / "haproxy.cfg")]
