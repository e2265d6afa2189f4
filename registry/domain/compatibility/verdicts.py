"""Remembered verdicts: the versions that a content is known to be compatible with, under one config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from registry.domain.lookup.registration import Content
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.schema_queries import Source
from registry.domain.queries import entities
from registry.domain.queries.scope import Config, Defaults, validates_fields
from registry.domain.queries.versions import Registered
from registry.domain.rows import version_row
from registry.domain.schemas import STRICT, digest

from .results import READERS


def known_to_pass(
    memory: SchemaMemory,
    content: Content,
    config: Config,
    defaults: Defaults,
    targets: Sequence[str] = (),
) -> Callable[[bytes], bool] | None:
    """Return a predicate for packed version rows that ``content`` is known to be compatible with.

    These versions may be left out of the check. None: at this level, each version counts.
    """
    level = config.compatibility_level or defaults.compatibility
    if targets or not level.endswith("_TRANSITIVE") or validates_fields(config, defaults):
        return None
    wanted, kind = _parameters(content, level, config), b'"%b"' % content.schema_type.encode()

    def passes(value: bytes) -> bool:
        said = version_row.plain_content_of(value)
        return said is not None and said[0] == kind and bool(memory.compatible.get(wanted + said[1]))

    return passes


def _parameters(content: Content, level: str, config: Config) -> bytes:
    return content.source.digest + digest((*READERS[level], config.compatibility_policy or STRICT))


class Verdicts:
    """The remembered verdicts on one content."""

    def __init__(self, memory: SchemaMemory, content: Content, level: str, config: Config) -> None:
        # Digest of all parameters of the comparison with each version.
        self.parameters: Final = _parameters(content, level, config)
        self._memory = memory
        self._schema_type = content.schema_type

    def has_passed(self, old: Registered) -> bool:
        """Return true if the content is known to be compatible with a version."""
        # The other keys require the row's text; compute them only if the first is unknown.
        tried: list[bytes] = []
        for key in self._keys(old):
            if self._memory.compatible.get(key):
                if tried:
                    self._memory.put_compatible(tried[0])
                return True
            tried.append(key)
        return False

    def remember(self, old: Registered) -> None:
        """Remember that the content is compatible with a version."""
        for key in self._keys(old):
            self._memory.put_compatible(key)

    def _keys(self, old: Registered) -> Iterator[bytes]:
        """Yield the keys of the result for a version: by its content, its text, and its model if known.

        None of them covers the referenced schemas.
        """
        row = old.row
        if row.references or row.md5_stored:
            return
        yield self.parameters + row.md5
        source = Source(self._schema_type, entities.text(row))
        yield self.parameters + source.digest
        own = self._memory.own_fingerprint(source)
        if own is not None:
            yield self.parameters + own
