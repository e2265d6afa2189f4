"""The parts list of a release (SBOM, CycloneDX 1.6): pinned requirements, and libraries of the console.

The packages of the operating system are in the parts lists that BuildKit attaches to the images.
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.markers import Marker

NAME = "kafka-registrar"
REQUIRED = "requirements.txt"
# What the images have in addition.
OPTIONAL = ("requirements-otel.txt", "requirements-spark.txt")
CONSOLE = Path("registry/ui/package-lock.json")
BUNDLED = Path("registry/ui/static/vendor.LICENSES.txt")
# The Python of the images, for pins that differ between versions.
ENVIRONMENT = {
    "python_version": "3.12", "python_full_version": "3.12.0", "sys_platform": "linux", "os_name": "posix",
    "platform_system": "Linux", "implementation_name": "cpython", "platform_python_implementation": "CPython",
}  # fmt: skip
# Licenses of what may be shipped: all permit it with a notice, and none reaches beyond its own files.
ALLOWED = frozenset({
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT-0", "MPL-2.0"),
    *("OLDAP-2.8", "PSF-2.0", "Zlib"),
})  # fmt: skip
# What packages without an expression write instead.
_STATED = {
    "Apache 2": "Apache-2.0", "Apache 2.0": "Apache-2.0", "Apache Software License": "Apache-2.0",
    "http://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0", "MIT License": "MIT",
    "3-Clause BSD License": "BSD-3-Clause",
    **{name: name for name in ALLOWED},
}  # fmt: skip
# Packages that state less, by the text of the license that they ship.
_READ = {
    "google-re2": "BSD-3-Clause",
    "pandas": "BSD-3-Clause",
    "py4j": "BSD-3-Clause",
    "python-dateutil": "Apache-2.0 AND BSD-3-Clause",
}
_PIN = re.compile(r"^([\w.-]+)==([^\s;]+)(?: ; ([^\\\n]*))?[^\n]*\n((?: [^\n]*\n)*)", re.MULTILINE)
_VIA = re.compile(r"^    # (?:via +|  )(\S+)", re.MULTILINE)


class Part(NamedTuple):
    """One package of an ecosystem ("pypi", "npm"), and the names of what needs it, NAME for the project."""

    ecosystem: str
    name: str
    version: str
    license: str
    needed_by: frozenset[str]
    is_optional: bool = False
    sha512: str = ""


def parts(root: Path) -> list[Part]:
    """Return all parts, by name. Raises ValueError for a package whose license is not known."""
    required = {name: (version, via) for name, version, via in _pins(root / REQUIRED)}
    optional = {name: (version, via) for file in OPTIONAL for name, version, via in _pins(root / file)}
    found = [
        Part("pypi", name, version, license_of(name), via, is_optional=name not in required)
        for name, (version, via) in (optional | required).items()
    ]
    return sorted([*found, *_console(root)])


def license_of(name: str) -> str:
    """Return an installed package's license as an SPDX expression. Raises ValueError if it states none."""
    about = importlib.metadata.metadata(name)
    if name in _READ:
        return _READ[name]
    if "License-Expression" in about:
        return about["License-Expression"]
    classifiers = (each for each in about.get_all("Classifier") or () if each.startswith("License ::"))
    short = (each.rpartition(" :: ")[2] for each in classifiers)
    for stated in (*(about.get_all("License") or ()), *short):
        if stated in _STATED:
            return _STATED[stated]
    raise ValueError(f"{name}: read the text of its license, and add it to {Path(__file__).name}")


def refused_parts(found: Iterable[Part]) -> dict[str, str]:
    """Return the parts with a license that is not allowed, by name. Of alternatives, all must be allowed."""
    return {
        part.name: part.license
        for part in found
        if not set(re.split(r"[\s()]+|AND|OR|WITH", part.license)) - {""} <= ALLOWED
    }


def parts_list(root: Path, version: str, commit: str, epoch: int) -> str:
    """Return the parts list as CycloneDX's JSON; the same for the same commit."""
    found = parts(root)
    if wrong := refused_parts(found):
        raise ValueError(f"not allowed: {wrong}")
    about = Component(
        name=NAME, version=version, type=ComponentType.APPLICATION, bom_ref=NAME,
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
        purl=PackageURL("pypi", name=NAME, version=version),
    )  # fmt: skip
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"pkg:pypi/{NAME}@{version}#{commit}"))
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.metadata.component = about
    components = {part.name: _component(part) for part in found}
    bom.components.update(components.values())
    everything = components | {NAME: about}
    for name, each in everything.items():
        bom.register_dependency(each, [everything[part.name] for part in found if name in part.needed_by])
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    return f"{text}\n"


def _component(part: Part) -> Component:
    group, _, name = part.name.rpartition("/")
    purl = PackageURL(part.ecosystem, group or None, name, part.version)
    return Component(
        name=name, group=group or None, version=part.version, type=ComponentType.LIBRARY,
        bom_ref=purl.to_string(), purl=purl,
        scope=ComponentScope.OPTIONAL if part.is_optional else ComponentScope.REQUIRED,
        licenses=[LicenseFactory().make_from_string(part.license)],
        hashes=[HashType(alg=HashAlgorithm.SHA_512, content=part.sha512)] if part.sha512 else [],
    )  # fmt: skip


def _pins(lock: Path) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield name, version and what needs it, for the Python of the images."""
    for name, version, marker, rest in _PIN.findall(lock.read_text(encoding="utf-8")):
        if not marker or Marker(marker.strip()).evaluate(ENVIRONMENT):
            yield name, version, frozenset(_VIA.findall(rest)) - {"-c"}


def _console(root: Path) -> list[Part]:
    """Return what is bundled; the lock file also has what only bundles and tests."""
    locked = json.loads((root / CONSOLE).read_text(encoding="utf-8"))["packages"]
    direct = locked[""]["dependencies"]
    bundled = re.findall(
        r"^(\S+) (\S+) \((.+)\)$", (root / BUNDLED).read_text(encoding="utf-8"), re.MULTILINE
    )
    found = []
    for name, version, license_ in bundled:
        entry = locked[f"node_modules/{name}"]
        assert entry["version"] == version, f"{name}: run make console"
        via = {other for other, _, _ in bundled if name in _needs(locked, other)}
        sha512 = base64.b64decode(entry["integrity"].removeprefix("sha512-")).hex()
        needed_by = frozenset(via | ({NAME} if name in direct else set()))
        found.append(Part("npm", name, version, license_, needed_by, sha512=sha512))
    return found


def _needs(locked: dict[str, Any], name: str) -> dict[str, str]:
    needed: dict[str, str] = locked[f"node_modules/{name}"].get("dependencies", {})
    return needed
