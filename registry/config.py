"""The settings: one table, read once, then frozen.

Each setting stands in one place, :class:`Settings`, with its default, what it may hold and what it does. The
names in the TOML file, the environment (``REGISTRAR_`` and the name in capitals) and the flags (``--`` and
the name with dashes) follow from it, and so do the help, the example file and the table in the README.

Later sources win: defaults, file, environment, flags. A name that nobody knows or a value that is not allowed
is an error that says where it stands and what is allowed; all of them are told at once.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from .allowed import (
    ADDRESS,
    FOLDER,
    SWITCH,
    Kind,
    choice,
    quoted,
    seconds,
    size,
    split_address,
    text,
    whole,
)

PREFIX = "REGISTRAR_"
CONFIG_VARIABLE = PREFIX + "CONFIG"
_LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)

# Kubernetes sets these for a service named "registrar"; they are not meant for us.
_SERVICE_LINK = re.compile(r"REGISTRAR_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_[0-9]+_(TCP|UDP)(_\w+)?)?)")

_DAY = 86_400
_MIB = 2**20
_GIB = 2**30


class SettingsError(Exception):
    """Settings that refuse the start; ``problems`` has one sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _cores() -> int:
    return min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _setting(default: Any, kind: Kind, group: str, does: str, shown: str | None = None) -> Any:
    """A field: ``shown`` replaces the default's value in the docs where it depends on the machine."""
    metadata = {"kind": kind, "group": group, "does": does, "shown": shown}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set. Names end in their unit; sizes are bytes."""

    listen: str = _setting("127.0.0.1:8081", ADDRESS, "where", "Address of the HTTP API")
    data: Path = _setting(Path("./data"), FOLDER, "where", "Folder of the log and the store")
    readers: int = _setting(
        _cores,
        whole(0, 256),
        "where",
        "Processes that answer HTTP; 0 serves everything from the node's own process",
        "number of cores, at most 4",
    )
    cluster_id: str = _setting(
        "registrar",
        text(r"[A-Za-z0-9._-]{1,255}", "1 to 255 letters, digits, dots, dashes and underscores"),
        "where",
        "Id of this registry in /v1/metadata/id",
    )

    compatibility: str = _setting(
        "BACKWARD", choice(*_LEVELS, fold=str.upper), "rules", "Compatibility level where none is configured"
    )
    validate_new_schemas: bool = _setting(
        True, SWITCH, "rules", "Hold new schemas to what Avro demands of names and defaults"
    )
    validate_fields: bool = _setting(False, SWITCH, "rules", "Refuse fields whose names begin with $$")
    mode_mutability: bool = _setting(True, SWITCH, "rules", "Let PUT and DELETE on /mode change modes")
    reject_empty_subject: bool = _setting(False, SWITCH, "rules", "Refuse to register under an empty subject")
    id_batch: int = _setting(
        20, whole(1, 100_000), "rules", "Ids reserved at once; a restart may skip as many"
    )

    body_bytes_max: int = _setting(
        5 * _MIB, size(1024, _GIB), "limits", "Largest request body; a larger one is refused with 413"
    )
    record_bytes_max: int = _setting(
        5_600_000, size(1024, _GIB), "limits", "Largest record of the log; a larger one is refused with 42209"
    )
    request_timeout_s: float = _setting(
        30.0, seconds(0.1, 3600), "limits", "Time for a request, from its last byte to the answer"
    )
    header_timeout_s: float = _setting(
        15.0, seconds(0.1, 3600), "limits", "Time for a request's headers to arrive"
    )
    body_timeout_s: float = _setting(
        30.0, seconds(0.1, 3600), "limits", "Time for a request's body to arrive"
    )
    idle_timeout_s: float = _setting(
        75.0, seconds(0.1, 86_400), "limits", "Time until a connection without requests is closed"
    )
    connections_max: int = _setting(
        10_000, whole(1, 1_000_000), "limits", "Open connections of each process that serves HTTP"
    )
    queue_max: int = _setting(
        10_000, whole(1, 1_000_000), "limits", "Writes that may wait; one more is refused with 503"
    )

    store_map_bytes: int = _setting(
        64 * _GIB, size(16 * _MIB, 2**46), "storage", "Largest size of the store; the file is sparse"
    )
    log_map_bytes: int = _setting(
        64 * _GIB, size(16 * _MIB, 2**46), "storage", "Largest size of the log; the file is sparse"
    )
    min_compaction_lag_s: float = _setting(
        float(_DAY),
        seconds(0, 10 * 365 * _DAY),
        "storage",
        "Age at which a replaced record may leave the log",
    )
    tombstone_retention_s: float = _setting(
        7.0 * _DAY,
        seconds(0, 10 * 365 * _DAY),
        "storage",
        "Age at which a deletion's record may leave the log",
    )

    cache_max_age_s: int = _setting(
        0, whole(0, 365 * _DAY), "answers", "max-age of answers by id and guid; 0 sends none"
    )
    log_level: str = _setting(
        "info", choice("debug", "info", "warning", "error"), "answers", "Least level of the log lines printed"
    )
    log_format: str = _setting(
        "console", choice("console", "json"), "answers", "Log lines for people or for machines"
    )
    access_log: bool = _setting(False, SWITCH, "answers", "One log line for each request")

    @property
    def host(self) -> str:
        """Host of ``listen``, an IPv6 address without its brackets."""
        return split_address(self.listen)[0]

    @property
    def port(self) -> int:
        """Port of ``listen``."""
        return split_address(self.listen)[1]


class Setting(NamedTuple):
    """One row of the table of settings."""

    name: str
    kind: Kind
    group: str
    does: str
    default: str

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")


class Loaded(NamedTuple):
    """The settings, and for each name where its value came from."""

    settings: Settings
    origins: dict[str, str]


class _Given(NamedTuple):
    """A value that somebody wrote."""

    name: str
    value: object
    origin: str

    def __str__(self) -> str:
        return f"{self.name} = {_shown(self.value)} ({self.origin})"


def _default_text(entry: Field[Any]) -> str:
    shown: str | None = entry.metadata["shown"]
    if shown is not None:
        return shown
    assert entry.default is not MISSING
    kind: Kind = entry.metadata["kind"]
    return kind.show(entry.default)


def table() -> list[Setting]:
    """Every setting, in the order of :class:`Settings`."""
    return [
        Setting(
            entry.name,
            entry.metadata["kind"],
            entry.metadata["group"],
            entry.metadata["does"],
            _default_text(entry),
        )
        for entry in fields(Settings)
    ]


def load(
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """Read the settings; ``file`` is TOML, and without it the one that ``REGISTRAR_CONFIG`` names.

    ``flags`` is keyed by a setting's name. Raises :class:`SettingsError` with everything that is wrong.
    """
    environment = environment or {}
    problems: list[str] = []
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    known = {setting.name: setting for setting in table()}
    values: dict[str, Any] = {}
    origins = dict.fromkeys(known, "default")
    for given in _all_given(flags or {}, environment, file, problems):
        setting = known.get(given.name)
        if setting is None:
            problems.append(_unknown(given, known))
            continue
        try:
            values[given.name] = setting.kind.read(given.value)
            origins[given.name] = given.origin
        except ValueError:
            problems.append(f"{given} is not allowed; allowed: {setting.kind.allowed}")
    if problems:
        raise SettingsError(problems)
    return Loaded(Settings(**values), origins)


def _all_given(
    flags: Mapping[str, str], environment: Mapping[str, str], file: Path | None, problems: list[str]
) -> Iterator[_Given]:
    """Every value that somebody wrote, in the order in which later ones win."""
    if file is not None:
        for name, value in _read_file(file, problems).items():
            yield _Given(name, value, f"file {file}")
    for variable, word in sorted(environment.items()):
        foreign = not variable.startswith(PREFIX) or _SERVICE_LINK.fullmatch(variable)
        if foreign or variable == CONFIG_VARIABLE:
            continue
        name = variable[len(PREFIX) :]
        # A name that is not in capitals is no setting: taking it too would give one setting two variables.
        yield _Given(name.lower() if name.isupper() else variable, word, f"environment {variable}")
    for name, word in flags.items():
        yield _Given(name, word, f"flag --{name.replace('_', '-')}")


def _read_file(file: Path, problems: list[str]) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"the file {file} cannot be read: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"the file {file} is not TOML: {error}")
    return {}


def _unknown(given: _Given, known: Mapping[str, Setting]) -> str:
    near = difflib.get_close_matches(given.name.lower(), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
    return f"{given} is no setting; {hint}"


def _shown(value: object) -> str:
    word = quoted(value) if isinstance(value, str) else repr(value)
    return word if len(word) <= 80 else word[:77] + "..."


def as_toml(loaded: Loaded) -> str:
    """The settings in force as a TOML file, each with the place that it came from."""
    lines = {
        setting.name: f"{setting.name} = {setting.kind.show(getattr(loaded.settings, setting.name))}"
        for setting in table()
    }
    width = max(map(len, lines.values()))
    return "".join(f"{line:<{width}}  # {loaded.origins[name]}\n" for name, line in lines.items())
