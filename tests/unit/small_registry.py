"""A registry in memory: decisions become records, and records are folded into rows."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry.domain.commands import (
    Command,
    DeleteConfig,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    PutConfig,
    PutMode,
    Register,
)
from registry.domain.decide import decide
from registry.domain.decide.ids import Ids
from registry.domain.errors import RegistryError
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Entry, Record
from registry.domain.lookup import find
from registry.domain.model import Metadata, Reference, Subject
from registry.domain.parsing.parser import Parser
from registry.domain.queries.scope import ConfiguredSubject, Defaults, with_own_config
from registry.domain.queries.walks import run_search
from registry.domain.rows.memory_views import DictView
from registry.domain.schemas import Difference
from registry.domain.schemas.avro.format import AvroFormat, AvroSchema

STRING, INT, LONG = '"string"', '"int"', '"long"'


def record(name: str = "R", *fields: str, **others: Any) -> str:
    """Return a record schema; a field that ends in ``?`` has a default."""
    listed = [
        {"name": each.rstrip("?"), "type": "int"} | ({"default": 0} if each.endswith("?") else {})
        for each in fields
    ]
    return orjson.dumps({"type": "record", "name": name, "fields": listed} | others).decode()


def properties(**pairs: str) -> Metadata:
    return Metadata(properties={name.replace("__", ":"): value for name, value in pairs.items()})


class CountingAvro(AvroFormat):
    """Counts parsed and compared schemas."""

    parses = comparisons = 0

    def parse(self, *source: Any, **options: Any) -> AvroSchema:
        self.parses += 1
        return super().parse(*source, **options)

    def differences(self, *schemas: Any, **options: Any) -> list[Difference]:
        self.comparisons += 1
        return super().differences(*schemas, **options)


class SmallRegistry:
    def __init__(self, defaults: Defaults | None = None) -> None:
        self.view = DictView()
        self.ids = Ids()
        self.parser = Parser()
        self.defaults = defaults or Defaults()
        self.log: list[Record] = []
        # The records of the last command.
        self.last: list[Entry] = []

    def submit(self, command: Command) -> Any:
        decision = self.parser.run(decide(self.view, command, self.ids, self.defaults, self.parser.memory))
        self.last = decision.entries
        for entry in decision.entries:
            self.append(entry.key, entry.value)
        return orjson.loads(decision.reply) if decision.reply else None

    def append(self, key: bytes, value: bytes | None) -> None:
        """Write a record that another writer could have written."""
        record = Record(len(self.log), 1_000 + len(self.log), key, value)
        self.log.append(record)
        self.view.commit(apply(self.view, record))

    def refusal(self, command: Command) -> tuple[int, str]:
        """Return code and message of a command that must be refused and change nothing."""
        rows, spans = dict(self.view.rows()), self.ids.save()
        with pytest.raises(RegistryError) as refused:
            self.parser.run(decide(self.view, command, self.ids, self.defaults, self.parser.memory))
        assert dict(self.view.rows()) == rows
        assert self.ids.save() == spans
        return refused.value.code, refused.value.message

    @property
    def last_keys(self) -> list[Any]:
        """Return the meaning of the keys of the last command's records, without reservations of ids."""
        keys = [orjson.loads(entry.key) for entry in self.last]
        return [
            (
                key["keytype"],
                key.get("subject", key.get("context")),
                key.get("version"),
                entry.value is not None,
            )
            for key, entry in zip(keys, self.last, strict=True)
            if key["keytype"] != "NOOP"
        ]

    def register(self, subject: str, schema: str = STRING, **members: Any) -> dict[str, Any]:
        reply: dict[str, Any] = self.submit(Register(subject, schema, **members))
        return reply

    def place(self, subject: str, schema: str = STRING, **members: Any) -> tuple[int, int]:
        """Return id and version of a registration."""
        reply = self.register(subject, schema, **members)
        return reply["id"], reply["version"]

    def lookup(self, subject: str, schema: str = STRING, *, deleted: bool = False, **members: Any) -> Any:
        request, context = Register(subject, schema, **members), None
        while True:
            found = self.parser.run(
                find.lookup(
                    self.view,
                    self.parser.memory,
                    self.configured(subject),
                    request,
                    self.defaults,
                    deleted=deleted,
                    elsewhere=context,
                )
            )
            if found is not None:
                return orjson.loads(found)
            context = run_search(
                find.next_context(self.view, Subject.parse(subject), context, deleted=deleted)
            )

    def configured(self, subject: str) -> ConfiguredSubject:
        return with_own_config(self.view, Subject.parse(subject))

    def missing(self, subject: str, schema: str = STRING, *, deleted: bool = False, **members: Any) -> int:
        """Return the code with which a lookup is refused."""
        with pytest.raises(RegistryError) as refused:
            self.lookup(subject, schema, deleted=deleted, **members)
        return refused.value.code

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> Any:
        if version is None:
            return self.submit(DeleteSubject(subject, permanent))
        return self.submit(DeleteVersion(subject, version, permanent))

    def purge(self, subject: str, version: int | None = None) -> Any:
        """Soft-delete, then delete permanently."""
        self.delete(subject, version)
        return self.delete(subject, version, permanent=True)

    def config(self, subject: str | None, **members: Any) -> Any:
        return self.submit(PutConfig(subject, members))

    def level(self, subject: str | None, level: str) -> None:
        self.config(subject, compatibilityLevel=level)

    def drop_config(self, subject: str | None) -> Any:
        return self.submit(DeleteConfig(subject))

    def mode(self, subject: str | None, mode: str | None, *, force: bool = False) -> Any:
        return self.submit(PutMode(subject, mode, mode, force))

    def drop_mode(self, subject: str | None, *, recursive: bool = False) -> Any:
        return self.submit(DeleteMode(subject, recursive))


def reference(subject: str, version: int = 1, name: str = "R") -> Reference:
    return Reference(name, subject, version)


def parse(name: str) -> Subject:
    return Subject.parse(name)
