"""The files that docs/integrations.md shows, for the servers of a test, and the jars of their tools."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.local.jars import java
from snapshots.spark.jars import Jars
from tests.clients.secured import STORE_PASSWORD, WRITER, Secured
from tests.support.pages import blocks
from tests.support.running import ROOT

PAGE = ROOT / "docs" / "integrations.md"
JAVA = Path(__file__).parent / "java"
REGISTRY, BROKER = "http://127.0.0.1:8081", "127.0.0.1:9092"
# The ways to log in that the page shows for tools on Java.
WAYS = ("password", "token", "certificate")
# For a program that runs for seconds.
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


def shown(name: str, replaced: Mapping[str, str]) -> str:
    """Return the file ``name`` of the page with the keys of ``replaced``, which it must have, replaced."""
    found = (block.code for block in blocks(PAGE) if (block.note, block.value) == ("file", name))
    return _with(next(found), replaced)


def write(folder: Path, name: str, replaced: Mapping[str, str]) -> Path:
    """Write the file ``name`` of the page into ``folder``, and return its path."""
    path = folder / Path(name).name
    path.write_text(shown(name, replaced), encoding="utf-8")
    return path


def secured(name: str, way: str, site: Secured) -> str:
    """Return what the file ``name`` says about https and one of :data:`WAYS` to log in, for ``site``."""
    lines, *ways = re.split(r"^(?:#|--) (?:or )?a (\w+)\n", shown(name, {}), flags=re.MULTILINE)
    text = lines + dict(zip(ways[::2], ways[1::2], strict=True))[way]
    stores = site.java_stores("walter")
    for pattern, own in (
        (r"https://registry\.example:8443", site.url),
        (r"/etc/\w+/ca\.p12", stores["schema.registry.ssl.truststore.location"]),
        (r"/etc/\w+/client\.p12", stores["schema.registry.ssl.keystore.location"]),
        ("changeit", STORE_PASSWORD),
        (r"\w+:secret", WRITER),
        (r"A\.SIGNED\.TOKEN", site.tokens.fetch()),
    ):
        text = re.sub(pattern, own, text)
    return text


def commands(program: str, replaced: Mapping[str, str]) -> str:
    """Return the page's first commands that begin with ``program``, in the same way."""
    found = (block.code for block in blocks(PAGE) if block.language == "sh")
    return _with(next(code for code in found if code.startswith(program)), replaced)


def _with(text: str, replaced: Mapping[str, str]) -> str:
    for found, replacement in replaced.items():
        assert found in text, f"the page no longer has {found!r} there"
        text = text.replace(found, replacement)
    return text


def tool_jars(name: str) -> list[Path]:
    """Return the jars that ``java/NAME.ivy.xml`` describes, fetched if missing. Raises ``NotAvailable``."""
    return Jars(JAVA, name, java, lambda text: print(text, file=sys.stderr, flush=True)).here()


def class_path(name: str) -> str:
    """Return the class path of :func:`tool_jars`."""
    return ":".join(map(str, tool_jars(name)))
