"""Resolution of names to declarations: of the file, of its references, or of the bundled imports.

As in Confluent's server, all known declarations are visible, imported or not; the innermost scope with the
whole name counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from .model import SCALARS, EnumType, Extend, Field, File, MapType, Message

_BUNDLED_PACKAGES: Final = ("google.", "confluent.")


class Declared(NamedTuple):
    """A message or an enum and its origin."""

    full_name: str
    package: str
    type: Message | EnumType
    # The import that contains it; empty for declarations of the schema itself.
    path: str

    @property
    def local_name(self) -> str:
        """The name without the package."""
        return self.full_name[len(self.package) + 1 :] if self.package else self.full_name


class Extension(NamedTuple):
    """A field that extends a message, and the import that brings it."""

    field: Field
    path: str


class Names:
    """All names that a schema can use."""

    def __init__(
        self,
        own: File,
        dependencies: Iterable[tuple[str, File]] = (),
        bundled: Callable[[], Names] | None = None,
    ) -> None:
        """``dependencies`` come with their import paths; ``bundled`` returns the names of bundled imports.

        If several declarations have the same name, the schema's own counts, then that of the last dependency.
        """
        self.types: dict[str, Declared] = {}
        self.extensions: dict[str, Extension] = {}
        self._bundled = bundled
        for path, file in dependencies:
            self._add(path, file)
        self._add("", own)

    def _add(self, path: str, file: File) -> None:
        for name, declared in declarations(file):
            self.types[name] = Declared(name, file.package, declared, path)
        self.extensions.update((name, Extension(field, path)) for name, field in extension_fields(file))

    def type(self, name: str, scope: str) -> Declared | None:
        """Return the declaration of ``name`` inside the message or package ``scope``."""
        return next((each for each in map(self._type, _candidates(name, scope)) if each), None)

    def extension(self, name: str, scope: str) -> str | None:
        """Return the full name of the extension field for an option in ``scope``."""
        return next((each for each in _candidates(name, scope) if self.extension_called(each)), None)

    def extension_called(self, full_name: str) -> Extension | None:
        """Return the extension with this full name."""
        found = self.extensions.get(full_name)
        if found is None and self._bundled and full_name.startswith(_BUNDLED_PACKAGES):
            found = self._bundled().extensions.get(full_name)
        return found

    def _type(self, full_name: str) -> Declared | None:
        found = self.types.get(full_name)
        if found is None and self._bundled and full_name.startswith(_BUNDLED_PACKAGES):
            found = self._bundled().types.get(full_name)
        return found


def unknown_type(file: File, names: Names) -> str | None:
    """Return a type that a field, a method or an ``extend`` names but nothing declares."""
    return next((name for name, scope in _names_in(file) if names.type(name, scope) is None), None)


def _names_in(file: File) -> Iterator[tuple[str, str]]:
    for scope, declared in declarations(file):
        if isinstance(declared, Message):
            yield from _named_by(declared.all_fields(), scope)
            for group in declared.all_groups():
                yield from _named_by(group.fields, scope)
    for scope, extend in extends(file):
        yield extend.name, scope
        yield from _named_by(extend.fields, scope)
    for service in file.services:
        for rpc in service.rpcs:
            yield from ((name, file.package) for name in (rpc.request, rpc.response))


def _named_by(fields: Iterable[Field], scope: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        name = field.type.value if isinstance(field.type, MapType) else field.type
        if name not in SCALARS:
            yield name, scope


def _candidates(name: str, scope: str) -> Iterator[str]:
    if name.startswith("."):
        yield name[1:]
        return
    while scope:
        yield f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    yield name


def inside(scope: str, name: str) -> str:
    """Return the full name of a declaration in a scope."""
    return f"{scope}.{name}" if scope else name


def declarations(file: File) -> Iterator[tuple[str, Message | EnumType]]:
    """Yield all declarations of the file by full name; outer ones come before inner ones."""
    todo = [(file.package, each) for each in reversed(file.types)]
    while todo:
        scope, declared = todo.pop()
        name = inside(scope, declared.name)
        yield name, declared
        if isinstance(declared, Message):
            todo += [(name, each) for each in reversed(declared.types)]


def message_at(file: File, position: Sequence[int]) -> str | None:
    """Return the full name of a message by its place among the messages of each level; None if none is there.

    ``position``: counted from 0, without enums, the outermost level first (Confluent's message indexes).
    """
    scope, types = file.package, file.types
    for index in position:
        messages = [each for each in types if isinstance(each, Message)]
        if index >= len(messages):
            return None
        scope, types = inside(scope, messages[index].name), messages[index].types
    return scope


def extends(file: File) -> Iterator[tuple[str, Extend]]:
    """Yield the ``extend`` statements of a file with their scopes."""
    yield from ((file.package, each) for each in file.extends)
    for name, declared in declarations(file):
        if isinstance(declared, Message):
            yield from ((name, each) for each in declared.extends)


def extension_fields(file: File) -> Iterator[tuple[str, Field]]:
    """Yield the extension fields of a file by full name."""
    for scope, extend in extends(file):
        yield from ((inside(scope, field.name), field) for field in extend.fields)
