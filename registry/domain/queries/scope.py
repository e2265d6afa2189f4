"""Config and mode, as stored for a scope and as applied to a subject.

A scope is a subject, a context (``Subject(".ctx", "")``), the default context, which is also the top level
(``TOP``), or the default of all contexts (``EVERYWHERE``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from registry.domain.commands import Condition
from registry.domain.model import ALL_CONTEXTS, DEFAULT_CONTEXT, EVERYWHERE, TOP, Metadata, RuleSet, Subject
from registry.domain.policies import NO_POLICIES, Policies
from registry.domain.principal import ANONYMOUS, CheckedNames, Principal
from registry.domain.rows import layout
from registry.domain.rows.view import View

from .associations import RELEASED, AssociationRules

READ_ONLY = frozenset({"READONLY", "READONLY_OVERRIDE"})
# In these modes a registration brings its own id, and nothing is validated or compared.
TAKES_IDS = frozenset({"IMPORT", "FORWARD"})


@dataclass(frozen=True, slots=True)
class Defaults:
    """The server's settings that apply where nothing is stored."""

    compatibility: str = "BACKWARD"
    validate_fields: bool = False
    validate_new_schemas: bool = True
    mode_mutability: bool = True
    reject_empty_subject: bool = False
    strict_references: bool = False
    association_rules: AssociationRules = RELEASED
    # One of :data:`.deletion_guard.GUARDS`; how old a census may be, and the time, both in ms.
    deletion_guard: str = "off"
    census_age_max_ms: int = 7 * 86_400_000
    now: int = 0
    policies: Policies = NO_POLICIES
    # The sender of the command, whom policies may name.
    principal: Principal = ANONYMOUS
    kind: str = ""  # of the principal
    # As in :class:`~registry.domain.pending_command.CommandRequest`.
    checked: CheckedNames | None = None
    condition: Condition | None = None


class Config(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A config; absent members are ``None``. Names and order are those of the log and ``GET /config``."""

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: str | None = None
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None
    # Only with a transitive level: of all versions, those count that a census finds in use. Not Confluent's.
    compatibility_used: bool | None = None

    @property
    def adds(self) -> bool:
        """True if registrations may get metadata or rules that the client did not send."""
        return not (
            self.default_metadata is None
            and self.override_metadata is None
            and self.default_rule_set is None
            and self.override_rule_set is None
        )


class ConfiguredSubject(NamedTuple):
    """A subject, and the config stored for exactly it, so that one request reads that once."""

    subject: Subject
    own: Config | None


_decode = msgspec.json.Decoder(Config).decode
_NO_CONFIG = Config()
_INHERITED = (
    "normalize", "validate_fields", "validate_new_schemas", "validate_rules",
    "compatibility_policy", "compatibility_group",
)  # fmt: skip


_TOP_CONFIG, _EVERYWHERE_CONFIG = (layout.scope_key(layout.CONFIG, scope) for scope in (TOP, EVERYWHERE))
_TOP_MODE, _EVERYWHERE_MODE = (layout.scope_key(layout.MODE, scope) for scope in (TOP, EVERYWHERE))


def stored_config(view: View, scope: Subject) -> Config | None:
    """Return the config stored for exactly this scope."""
    return _config_at(view, layout.scope_key(layout.CONFIG, scope))


def with_own_config(view: View, subject: Subject) -> ConfiguredSubject:
    """Return a subject with its own config."""
    return ConfiguredSubject(subject, stored_config(view, subject))


def _config_at(view: View, key: bytes) -> Config | None:
    value = view.get(key)
    return None if value is None else _decode(value)


def config_in_scope(view: View, subject: Subject, defaults: Defaults) -> Config:
    """Return the config that applies to a subject, always with a level (Confluent 8.x).

    A subject's own config applies as a whole, but six absent members fall back to those of the top level,
    whatever the subject's context; a missing level falls back to the server's default, not to the top
    level's. Without its own config, that of the context applies as a whole, else that of all contexts, else
    the server's default. The top level stands only for the default context. Names in the context of all
    contexts always have a config (Confluent 8.4).
    """
    return effective_config(view, with_own_config(view, subject), defaults)


def effective_config(view: View, configured: ConfiguredSubject, defaults: Defaults) -> Config:
    """Return the config of :func:`config_in_scope` for a subject whose own config is known."""
    subject, own = configured
    if own is None and subject.context == ALL_CONTEXTS:
        own = _NO_CONFIG
    if own is not None:
        top = None if subject == TOP else _config_at(view, _TOP_CONFIG)
        return _with_level(own if top is None else _inherit(own, top), defaults)
    config = None
    if subject.name:
        config = _config_at(view, _context_key(layout.CONFIG, subject.context, _TOP_CONFIG))
    if config is None:
        config = _config_at(view, _EVERYWHERE_CONFIG)
    return _with_level(config or _NO_CONFIG, defaults)


def inherited_level(view: View, context: str, defaults: Defaults) -> str:
    """Return the compatibility level of a context's subjects that have no config of their own."""
    without = ConfiguredSubject(Subject(context, "any"), None)
    return effective_config(view, without, defaults).compatibility_level or defaults.compatibility


def level_in(value: bytes, defaults: Defaults) -> str:
    """Return the compatibility level of a subject whose own config is in a row with this value."""
    return _decode(value).compatibility_level or defaults.compatibility


def origins(view: View, subject: Subject) -> dict[str, Subject]:
    """Return the scope that each member of the config in scope comes from, by its name in ``GET /config``.

    A level that no scope decides is missing: it is the server's.
    """
    own = stored_config(view, subject)
    if own is not None or subject.context == ALL_CONTEXTS:
        sources = [(subject, own or Config(), Config.__struct_fields__)]
        if subject != TOP:
            sources.append((TOP, stored_config(view, TOP) or Config(), _INHERITED))
    else:
        stored = ((each, stored_config(view, each)) for each in chain(subject))
        sources = [(each, found, Config.__struct_fields__) for each, found in stored if found is not None][:1]
    names = dict(zip(Config.__struct_fields__, Config.__struct_encode_fields__, strict=True))
    found: dict[str, Subject] = {}
    for place, config, members in sources:
        for member in members:
            if getattr(config, member) is not None:
                found.setdefault(names[member], place)
    return found


def _inherit(own: Config, top: Config) -> Config:
    missing = {
        name: value
        for name in _INHERITED
        if getattr(own, name) is None and (value := getattr(top, name)) is not None
    }
    return msgspec.structs.replace(own, **missing) if missing else own


def _with_level(config: Config, defaults: Defaults) -> Config:
    if config.compatibility_level is not None:
        return config
    return msgspec.structs.replace(config, compatibility_level=defaults.compatibility)


def exact_config(view: View, scope: Subject, defaults: Defaults) -> Config | None:
    """Return the config of exactly this scope as ``GET /config`` shows it; some scopes always have one."""
    stored = stored_config(view, scope)
    if stored is None and _always_has_one(scope):
        stored = Config()
    return None if stored is None else _with_level(stored, defaults)


def stored_mode(view: View, scope: Subject) -> str | None:
    """Return the mode stored for exactly this scope."""
    value = view.get(layout.scope_key(layout.MODE, scope))
    return None if value is None else layout.mode_of(value)


def chain(subject: Subject) -> list[Subject]:
    """Return the scopes whose config or mode may apply to a subject or context, by precedence."""
    context = () if subject.is_context else (Subject(subject.context, ""),)
    return list(dict.fromkeys((subject, *context, EVERYWHERE)))


def mode_in_scope(view: View, subject: Subject) -> str:
    """Return a subject's mode: its own, its context's, that of all contexts, else ``READWRITE``."""
    return stored_mode(view, subject) or inherited_mode(view, subject.context)


def inherited_mode(view: View, context: str) -> str:
    """Return the mode of a context's subjects that have none of their own."""
    for key in (_context_key(layout.MODE, context, _TOP_MODE), _EVERYWHERE_MODE):
        value = view.get(key)
        if value is not None:
            return layout.mode_of(value)
    return "READWRITE"


def _context_key(table: bytes, context: str, top: bytes) -> bytes:
    return top if context == DEFAULT_CONTEXT else layout.scope_key(table, Subject(context, ""))


def validates_fields(config: Config, defaults: Defaults) -> bool:
    """Return true if the config asks for a check of reserved fields."""
    return defaults.validate_fields if config.validate_fields is None else config.validate_fields


def validates_new_schemas(config: Config, defaults: Defaults) -> bool:
    """Return true if the config asks for strict parsing of new schemas."""
    stored = config.validate_new_schemas
    return defaults.validate_new_schemas if stored is None else stored


def context_label(subject: Subject) -> str:
    """Return the context as Confluent's messages print it: empty for the default one (leaves two blanks)."""
    return "" if subject.context == DEFAULT_CONTEXT else f":{subject.context}:"


def resolve_alias(view: View, subject: Subject) -> Subject:
    """Return the alias in the subject's own config, else the subject; follows only one alias."""
    return _target(with_own_config(view, subject))


def resolve_configured(view: View, subject: Subject) -> ConfiguredSubject:
    """Return the subject of :func:`resolve_alias` with its own config."""
    asked = with_own_config(view, subject)
    target = _target(asked)
    return asked if target is subject else with_own_config(view, target)


def _target(asked: ConfiguredSubject) -> Subject:
    subject, config = asked
    if config is None or not config.alias or subject.is_context:
        return subject
    return Subject.within(subject.context, config.alias)


def exact_mode(view: View, scope: Subject) -> str | None:
    """Return the mode of exactly this scope as ``GET /mode`` shows it; some scopes always have one."""
    stored = stored_mode(view, scope)
    return "READWRITE" if stored is None and _always_has_one(scope) else stored


def _always_has_one(scope: Subject) -> bool:
    """Return true if the scope shows the server's defaults when nothing is stored (Confluent 8.3.1)."""
    return scope == TOP or scope.context == ALL_CONTEXTS
