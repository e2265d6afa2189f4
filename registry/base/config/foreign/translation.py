"""Translating the settings of another registry, from a properties file and the environment, to ours."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .confluent import CONFLUENT
from .confluent_conversions import DEFAULT_LISTENERS
from .karapace import KARAPACE
from .mapping import Refused, Registry, Row

BYTES_MAX = 1024 * 1024  # a longer file is not one of settings


def read_properties(file: Path) -> list[tuple[str, str]]:
    """Return names and values in their order. Raises :class:`OSError` and :class:`ValueError`.

    Java reads ISO-8859-1; what is valid UTF-8 is read as that.
    """
    import javaproperties  # noqa: PLC0415 (only for those who come from another registry)

    with file.open("rb") as opened:
        content = opened.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError("it is too long for a file of settings")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return [
        (item.key, item.value)
        for item in javaproperties.parse(text)
        if isinstance(item, javaproperties.KeyValue)
    ]


REGISTRIES = (CONFLUENT, KARAPACE)

# What Kubernetes makes of the name of a service; ``…_PORT`` may also be a setting, but then it is no URL.
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")

# The end of the origin of a value that is the other registry's default.
DEFAULT_ORIGIN = ", by default"

# An empty value turns off the check of the brokers' names; other empty values mean that nothing is set.
_MEANT_EMPTY = "endpoint.identification.algorithm"

# Settings of ours that exclude others: with one of them, the others are not taken from elsewhere.
_TLS_FILES = ("tls_certificate", "tls_key", "tls_key_password", "tls_keystore", "tls_keystore_password")
_INSTEAD: dict[str, tuple[str, ...]] = {
    "listen": ("listeners",),
    "tls_certificate": _TLS_FILES,
    "tls_keystore": _TLS_FILES,
}


class ForeignValue(NamedTuple):
    """A value of another registry's setting, and where it was given."""

    name: str
    value: str
    origin: str


class OurValue(NamedTuple):
    """A value of a setting of ours that follows from another registry's."""

    name: str
    value: str
    origin: str


class Translation(NamedTuple):
    """Settings of another registry in terms of ours; later values win."""

    values: list[OurValue]
    warnings: list[str]
    problems: list[str]


def in_environment(registry: Registry, environment: Mapping[str, str]) -> Iterator[ForeignValue]:
    """Yield the settings of a registry in the environment, except what Kubernetes put there."""
    names = {registry.variable(row.name): row.name for row in registry.rows if not row.pattern}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(registry.prefix) or is_service_link(variable, value):
            continue
        rest = variable[len(registry.prefix) :].lower().replace("_", registry.separator)
        name = names.get(variable, rest)
        if name not in registry.clients:
            yield ForeignValue(name, value.strip(), f"environment {variable}")


def is_service_link(variable: str, value: str) -> bool:
    """Return whether Kubernetes may have made a variable for a service of this name."""
    if _SERVICE_LINK.search(variable):
        return True
    return variable.endswith("_PORT") and _SERVICE_URL.match(value) is not None


def translate(registry: Registry, given: Iterable[ForeignValue], ours: Mapping[str, object]) -> Translation:
    """Translate settings; ``ours`` has the values that are given for settings of ours, which win."""
    found = Translation([], [], [])
    merged = _merge(given, found.warnings)
    values = {name: each.value for name, each in merged.items()}
    ignored: list[str] = []
    for each in _in_order(registry, merged):
        row = registry.row(each.name)
        if row is None:
            found.warnings.append(_unknown(registry, each))
        elif row.convert is None:
            ignored.append(each.name)
        else:
            _convert(row, each, values, ours, found)
    if ignored:
        found.warnings.append(
            f"these settings of {registry.title} have no counterpart and are ignored: {', '.join(ignored)} "
            "(registrar config map says why)"
        )
    return found


def from_elsewhere(
    properties: Path | None, environment: Mapping[str, str], ours: Mapping[str, object]
) -> Translation:
    """Translate the settings of all other registries in a properties file and the environment."""
    everything = Translation([], [], [])
    for registry in REGISTRIES:
        origin, given = f"the environment ({registry.prefix}…)", list(in_environment(registry, environment))
        if registry is CONFLUENT and properties is not None:
            origin = f"file {properties}"
            given = [*_in_file(properties, everything), *given]
        found = translate(registry, given, ours)
        if found.values or (registry is CONFLUENT and properties is not None and not everything.problems):
            _add_defaults(registry, found, origin, ours)
        everything.values.extend(found.values)
        everything.warnings.extend(found.warnings)
        everything.problems.extend(found.problems)
    return everything


def _in_file(file: Path, into: Translation) -> list[ForeignValue]:
    try:
        return [ForeignValue(name, value.strip(), f"file {file}") for name, value in read_properties(file)]
    except OSError as error:
        into.problems.append(f"the file {file} cannot be read: {error.strerror}")
    except ValueError as error:
        into.problems.append(f"the file {file} cannot be used: {error}")
    return []


def _add_defaults(registry: Registry, found: Translation, origin: str, ours: Mapping[str, object]) -> None:
    """Add what holds at the other registry if it is not given, and insist on its log."""
    names = {value.name for value in found.values}
    if "kafka" not in names and not ours.get("kafka") and not found.problems:
        found.problems.append(
            f"{origin} names no Kafka brokers ({registry.brokers}), so a new, empty registry would start: "
            "add them, or set kafka"
        )
    if registry is CONFLUENT and "listeners" not in names and not {"listen", "listeners"} & ours.keys():
        found.values.insert(0, OurValue("listeners", DEFAULT_LISTENERS, f"{origin}{DEFAULT_ORIGIN}"))


def _merge(given: Iterable[ForeignValue], warnings: list[str]) -> dict[str, ForeignValue]:
    merged: dict[str, ForeignValue] = {}
    for each in given:
        if not each.value and not each.name.endswith(_MEANT_EMPTY):
            continue
        before = merged.get(each.name)
        if before is not None and before.value != each.value:
            warnings.append(f"{each.name} ({before.origin}) is overridden by {each.origin}")
        merged[each.name] = each
    return merged


def _in_order(registry: Registry, merged: Mapping[str, ForeignValue]) -> list[ForeignValue]:
    """Return settings in the order of the table, in which later ones win, then unknown ones."""
    order = {row.name: number for number, row in enumerate(registry.rows)}

    def place(each: ForeignValue) -> int:
        row = registry.row(each.name)
        return len(order) if row is None else order[row.name]

    return sorted(merged.values(), key=place)


def _convert(
    row: Row, each: ForeignValue, given: Mapping[str, str], ours: Mapping[str, object], found: Translation
) -> None:
    assert row.convert is not None
    try:
        converted = row.convert(each.value, given)
    except Refused as refusal:
        if not any(_is_given(name, ours) for name in refusal.instead):
            found.problems.append(f"{each.name} ({each.origin}) {refusal}")
        return
    for name, value in converted.items():
        instead = _given_instead(name, ours)
        if instead == "listen" and "https://" in value:
            found.problems.append(
                f"{each.name} ({each.origin}) asks for https, but listen, which is given too, is http: "
                "remove listen, or set listeners"
            )
        elif instead:
            found.warnings.append(f"{each.name} ({each.origin}) is overridden by {instead}")
        else:
            found.values.append(OurValue(name, value, _origin(each)))


def _origin(each: ForeignValue) -> str:
    return each.origin if each.origin.startswith("environment ") else f"{each.origin}: {each.name}"


def _is_given(name: str, ours: Mapping[str, object]) -> bool:
    return bool(ours.get(name) or ours.get(f"{name}_file"))


def _given_instead(name: str, ours: Mapping[str, object]) -> str:
    """Return the setting of ours that is given and excludes the setting ``name``; empty if none is."""
    if ours.get(f"{name}_file"):
        return f"{name}_file"
    return next(
        (each for each, others in _INSTEAD.items() if ours.get(each) and name in others and each != name), ""
    )


def _unknown(registry: Registry, each: ForeignValue) -> str:
    near = difflib.get_close_matches(each.name, [row.name for row in registry.rows if not row.pattern], n=1)
    environment = each.origin.startswith("environment ")
    shown = each.origin if environment else f"{each.name} ({each.origin})"
    meant = (registry.variable(near[0]) if environment else near[0]) if near else ""
    hint = f"; did you mean {meant}?" if near else ""
    return f"unknown setting of {registry.title} is ignored: {shown}{hint}"
