"""The container of a rendered pod as a process of this machine: its command, environment and mounted files.

Paths of the container become paths below a folder, and names and ports of the pod addresses of loopback.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from deploy.local.process import Process, free_port

Json = dict[str, Any]
_VARIABLE = re.compile(r"\$\((\w+)\)")


class Pod(Process):
    """The only container of the pod ``spec``, once it is started; ``objects`` are rendered along with it.

    ``image`` is the environment that the image sets; ``names`` are other texts to replace, such as brokers.
    """

    def __init__(
        self,
        name: str,
        spec: Json,
        objects: list[Json],
        folder: Path,
        image: Mapping[str, str],
        names: Mapping[str, str],
    ) -> None:
        (self.container,) = spec["containers"]
        self.folder = folder
        ports = self.container.get("ports", ())
        self.ports = {each["name"]: (each["containerPort"], free_port()) for each in ports}
        self._name = name
        self._names = dict(names)
        self._mounts = {each["name"]: each["mountPath"] for each in self.container["volumeMounts"]}
        environment = self._environment(image)
        words = [*self.container["command"], *self.container["args"]]
        super().__init__(
            name,
            [self._here(_expand(word, environment)) for word in words],
            folder / "output.txt",
        )
        inherited = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
        self.environment = {each: self._here(value) for each, value in environment.items()} | inherited
        self._mount(spec, objects)

    def probe(self, which: str) -> int:
        """Return the status that kubelet would get; 200 or 503 for a command, as it succeeds or fails."""
        if "exec" in self.container[which]:
            command = [self._here(word) for word in self.container[which]["exec"]["command"]]
            done = subprocess.run(
                command,
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            return 503 if done.returncode else 200
        asked = self.container[which]["httpGet"]
        try:
            with urlopen(f"{self.url(asked['port'])}{asked['path']}", timeout=10) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def url(self, port: str = "http") -> str:
        """Return the URL of a port."""
        return f"http://127.0.0.1:{self.ports[port][1]}"

    def ready(self) -> bool:
        """Return true if it would get requests."""
        return self.probe("readinessProbe") == 200

    def _environment(self, image: Mapping[str, str]) -> dict[str, str]:
        fields = {"metadata.name": self._name, "status.podIP": "127.0.0.1"}
        environment = dict(image)
        for each in self.container["env"]:
            value = each.get("value") or fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            environment[each["name"]] = _expand(value, environment)
        return environment

    def _here(self, text: str) -> str:
        """Return a text of the container as it is on this machine."""
        for documented, port in self.ports.values():
            own = rf"(?:0\.0\.0\.0|{self._name}\.[\w.-]+):{documented}\b"
            text = re.sub(own, f"127.0.0.1:{port}", text)
        for name, address in self._names.items():
            text = text.replace(name, address)
        paths = "|".join(map(re.escape, self._mounts.values()))
        return re.sub(rf"(?<![\w./-])(?:{paths})(?![\w-])", rf"{self.folder}\g<0>", text)

    def _mount(self, spec: Json, objects: list[Json]) -> None:
        volumes = {each["name"]: each for each in spec["volumes"]}
        for name, path in self._mounts.items():
            folder = Path(f"{self.folder}{path}")
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in _contents(volumes.get(name, {}), objects).items():
                (folder / file).write_text(self._here(content), encoding="utf-8")


def _contents(volume: Json, objects: list[Json]) -> dict[str, str]:
    """Return the files of a volume; one of a claim or of the pod's own is empty."""
    if "configMap" in volume:
        data = _find(objects, "ConfigMap", volume["configMap"]["name"])["data"]
        return {item["path"]: data[item["key"]] for item in volume["configMap"]["items"]}
    if "secret" in volume:
        data = _find(objects, "Secret", volume["secret"]["secretName"])["data"]
        items = volume["secret"]["items"]
        return {item["path"]: base64.b64decode(data[item["key"]]).decode() for item in items}
    return {}


def _find(objects: list[Json], kind: str, name: str) -> Json:
    return next(each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))


def _expand(text: str, environment: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: environment.get(found[1], found[0]), text)
