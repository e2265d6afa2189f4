"""Loading the settings from the file, the environment and the command line.

Later sources win: defaults, the settings of another registry (:mod:`.foreign`), file, environment, flags.
Unknown names, invalid values and values that do not go together are errors that name their origin and the
allowed values; all of them are reported at once.
Variables that cannot have been meant as settings are ignored (:mod:`.sources`). The settings of
the Kafka client may also be in the file's table ``[kafka]``, by Kafka's names, and those of snapshots in the
table ``[snapshots]``, without their common prefix.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .addresses import with_secrets_hidden
from .foreign.translation import DEFAULT_ORIGIN, from_elsewhere
from .setting_types import HIDDEN, NotAllowed, quote_toml
from .settings import PREFIX, SECRET_FILE, SECURITY, VARIABLES, Loaded, Setting, Settings, table
from .sources import secret_in, sort_variables
from .validation import disagreements

__all__ = ["Loaded", "Setting", "Settings", "SettingsError", "as_toml", "load", "table"]

CONFIG_VARIABLE = PREFIX + "CONFIG"
PROPERTIES_VARIABLE = PREFIX + "PROPERTIES"
_SERVERS = "bootstrap.servers"
_TABLE = "kafka"
_SNAPSHOTS = "snapshots"
# The name in the table ``[snapshots]`` of the setting ``snapshots``.
_LOCATION = "location"

_NEAR = 0.7  # similarity of an unknown name to the one that its message suggests
_SECRET_LIKE = re.compile(r"pas+w|secret|jaas|token|credential", re.IGNORECASE)
# Names from other clients, with ours.
_OTHER_NAMES = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location, a file in PEM",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location, files in PEM",
    "ssl.keystore.password": "ssl.key.password",
    "kafkastore.bootstrap.servers": _SERVERS,
}


class SettingsError(Exception):
    """Invalid settings; ``problems`` has one sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _GivenValue(NamedTuple):
    """A value from a file, the environment or a flag."""

    name: str
    value: object
    origin: str

    def __str__(self) -> str:
        return f"{self.name} = {_format_value(self.name, self.value)} ({self.origin})"


def load(
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    properties: Path | None = None,
) -> Loaded:
    """Load the settings; ``file`` is TOML, by default the file that ``REGISTRAR_CONFIG`` names.

    ``flags`` has names of settings as keys. ``properties`` is a file of Confluent's Schema Registry, by
    default the one that ``REGISTRAR_PROPERTIES`` names. Raises :class:`SettingsError` with all problems.
    """
    environment = environment or {}
    problems: list[str] = []
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    if properties is None and environment.get(PROPERTIES_VARIABLE):
        properties = Path(environment[PROPERTIES_VARIABLE])
    known = {setting.name: setting for setting in table()}
    values: dict[str, Any] = {}
    origins = dict.fromkeys(known, "default")
    variables = sort_variables(_without_files(environment), PREFIX, known)
    ours = list(_all_given(flags or {}, variables.given, file, problems))
    elsewhere = from_elsewhere(properties, environment, _strong(ours))
    problems += elsewhere.problems
    warnings = elsewhere.warnings
    foreign = [_GivenValue(*value) for value in elsewhere.values]
    ours, foreign = _one_of_listen_and_listeners(ours, foreign, warnings)
    foreign_origins = {given.origin for given in foreign}
    for given in (*foreign, *ours):
        setting = known.get(given.name)
        if setting is None:
            problems.append(_unknown(given, known))
            continue
        try:
            value = setting.kind.read(given.value)
            if given.name == "readers" and value == 0:
                warnings.append(f"{given} is taken as 1: at least one reader serves HTTP")
                value = 1
            if origins[given.name] in foreign_origins and value != values[given.name]:
                warnings.append(f"{given.name} ({origins[given.name]}) is overridden by {given.origin}")
            values[given.name] = value
            origins[given.name] = given.origin
        except NotAllowed as error:
            problems.append(f"{given} is not allowed: {error}")
        except ValueError:
            shown = given._replace(value=HIDDEN) if setting.kind.secret else given
            problems.append(f"{shown} is not allowed; allowed: {setting.kind.allowed}")
    for variable, name in VARIABLES.items():
        if not (values.get(name) or values.get(name + SECRET_FILE)) and environment.get(variable):
            try:
                values[name] = known[name].kind.read(environment[variable])
                origins[name] = f"environment {variable}"
            except ValueError:
                problems.append(f"{variable} is not allowed; allowed: {known[name].kind.allowed}")
    for setting in known.values():
        if setting.kind.secret and values.get(setting.name + SECRET_FILE):
            _read_secret(setting, values, origins, problems)
    loaded = Loaded(Settings(**values), origins, tuple(variables.ignored), tuple(warnings))
    # Conflicts between settings are only checked if each of them is valid by itself.
    problems = problems or disagreements(loaded)
    if problems:
        raise SettingsError(problems)
    return loaded


def _strong(ours: list[_GivenValue]) -> dict[str, object]:
    """Return the values that win over another registry's: all but a ``listen`` that is no flag."""
    return {given.name: given.value for given in ours if given.name != "listen" or _is_flag(given)}


def _one_of_listen_and_listeners(
    ours: list[_GivenValue], foreign: list[_GivenValue], warnings: list[str]
) -> tuple[list[_GivenValue], list[_GivenValue]]:
    """Return the values without ``listen``, if another registry's settings name listeners.

    Images set ``listen`` in the environment; listeners that are given on purpose, with https perhaps, win.
    Listeners that are only the other registry's default do not.
    """
    listen = [given for given in ours if given.name == "listen" and not _is_flag(given)]
    listeners = [given for given in foreign if given.name == "listeners"]
    if not (listen and listeners):
        return ours, foreign
    if all(given.origin.endswith(DEFAULT_ORIGIN) for given in listeners):
        return ours, [given for given in foreign if given not in listeners]
    warnings.append(f"listen ({listen[-1].origin}) is overridden by listeners ({listeners[-1].origin})")
    return [given for given in ours if given not in listen], foreign


def _is_flag(given: _GivenValue) -> bool:
    return given.origin.startswith("flag ")


def _read_secret(
    setting: Setting, values: dict[str, Any], origins: dict[str, str], problems: list[str]
) -> None:
    """Read a secret from the file that its companion setting names."""
    file = f"{setting.name}{SECRET_FILE}"
    shown = f"{file} = {quote_toml(values[file])} ({origins[file]})"
    if values.get(setting.name):
        problems.append(f"{setting.name} ({origins[setting.name]}) and {shown}: give only one of them")
        return
    try:
        values[setting.name] = setting.kind.read(secret_in(values[file]))
        origins[setting.name] = f"{file} ({origins[file]})"
    except OSError as error:
        problems.append(f"the file of {shown} cannot be read: {error.strerror or error}")
    except ValueError:
        problems.append(f"the content of the file of {shown} is not allowed; allowed: {setting.kind.allowed}")


def _all_given(
    flags: Mapping[str, str], variables: Mapping[str, str], file: Path | None, problems: list[str]
) -> Iterator[_GivenValue]:
    """Yield every given value, in the order in which later ones win."""
    if file is not None:
        for name, value in _read_file(file, problems).items():
            if name == _TABLE and isinstance(value, dict):
                yield from _kafka_table(value, f"file {file}", problems)
            elif name == _SNAPSHOTS and isinstance(value, dict):
                yield from _snapshots_table(value, f"file {file}", problems)
            else:
                yield _GivenValue(name, value, f"file {file}")
    for name, word in variables.items():
        variable = PREFIX + name
        # Names must be in capitals; otherwise one setting would have two variables.
        yield _GivenValue(name.lower() if name.isupper() else variable, word, f"environment {variable}")
    for name, word in flags.items():
        yield _GivenValue(name, word, f"flag --{name.replace('_', '-')}")


def _without_files(environment: Mapping[str, str]) -> dict[str, str]:
    named = (CONFIG_VARIABLE, PROPERTIES_VARIABLE)
    return {name: value for name, value in environment.items() if name not in named}


def _read_file(file: Path, problems: list[str]) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"the file {file} cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:  # Also for a number with too many digits.
        problems.append(f"the file {file} is not TOML: {error}")
    return {}


def _kafka_table(members: dict[str, Any], origin: str, problems: list[str]) -> Iterator[_GivenValue]:
    """Yield the values in the table ``[kafka]``: the client's settings by Kafka's names, quoted or not."""
    return _named_table(_TABLE, {**SECURITY, _SERVERS: "kafka"}, members, origin, problems)


def _snapshots_table(members: dict[str, Any], origin: str, problems: list[str]) -> Iterator[_GivenValue]:
    """Yield the values in the table ``[snapshots]``: ``every`` for ``snapshots_every``, with dots or not."""
    prefix = f"{_SNAPSHOTS}_"
    shorter = [setting.name.removeprefix(prefix) for setting in table() if setting.name.startswith(prefix)]
    known = {spelled: prefix + name for name in shorter for spelled in (name, name.replace("_", "."))}
    return _named_table(_SNAPSHOTS, {**known, _LOCATION: _SNAPSHOTS}, members, origin, problems)


def _named_table(
    title: str, known: Mapping[str, str], members: dict[str, Any], origin: str, problems: list[str]
) -> Iterator[_GivenValue]:
    """Yield the values in a table of the file; ``known`` maps its names to those of settings."""
    for name, value in _flat(members):
        if name in known:
            yield _GivenValue(known[name], value, f"{origin}, [{title}] {name}")
            continue
        other = _OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, known, n=1)), None)
        hint = f"write {other}" if other else f"known: {', '.join(sorted(known))}"
        problems.append(f"unknown setting {name} ({origin}, [{title}]); {hint}")


def _flat(members: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the members of a table and of nested tables, by dotted names."""
    for name, value in members.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _unknown(given: _GivenValue, known: Mapping[str, Setting]) -> str:
    name = given.name.lower()
    near = difflib.get_close_matches(name, known, 1, _NEAR)
    alike = [each for each in sorted(known) if each.partition("_")[0] == name.partition("_")[0]]
    if near:
        hint = f"did you mean {near[0]}?"
    else:
        hint = f"known: {', '.join(alike)}" if alike else '"registrar serve --help-all" lists all'
    if near and known[near[0]].kind.secret:
        given = given._replace(value=HIDDEN)
    return f"unknown setting {given}; {hint}"


def _format_value(name: str, value: object) -> str:
    """Return a value for a message; a misspelled secret is hidden too."""
    if value not in ("", HIDDEN) and _SECRET_LIKE.search(name):
        return quote_toml(HIDDEN)
    if isinstance(value, str):
        value = with_secrets_hidden(value, HIDDEN)
    word = quote_toml(value) if isinstance(value, str) else repr(value)
    return word if len(word) <= 80 else word[:77] + "..."


def as_toml(loaded: Loaded) -> str:
    """Return the settings in force as a TOML file, each with its origin."""
    lines = {
        setting.name: f"{setting.name} = {setting.kind.show(getattr(loaded.settings, setting.name))}"
        for setting in table()
    }
    width = min(60, max(map(len, lines.values())))
    return "".join(f"{line:<{width}}  # {loaded.origins[name]}\n" for name, line in lines.items())
