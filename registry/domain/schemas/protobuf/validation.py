"""The rules that ``validateFields`` adds: types come from imports, and names and numbers are unique.

The released server (8.3.1) builds Java descriptors from the file and its imports. So an import counts only if
its text is the name of a reference or of a bundled file, and what Java does not check, such as the numbers of
enums or reserved ones, is not checked here, either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from registry.domain.schemas.contract import InvalidSchema

from .model import SCALARS, EnumType, Field, File, Group, MapType, Message
from .names import Names, declarations, inside

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Validation:
    """The validation of one file; ``dependencies`` are the files it may import, by reference name."""

    def __init__(self, file: File, names: Names, dependencies: Iterable[tuple[str, File]]) -> None:
        self._file: Final = file
        self._names: Final = names
        self._visible: Final = _visible(file, dict(dependencies))

    def check(self) -> None:
        """Raise :class:`InvalidSchema` for the first error."""
        faults = chain(self._faults_of_names(), self._faults_of_fields(), self._unknown_in_services())
        fault = next(faults, None)
        if fault is not None:
            raise InvalidSchema(f"Invalid protobuf schema definition: {fault}")

    def _faults_of_names(self) -> Iterator[str]:
        yield from _check_names(self._file.package, [each.name for each in self._file.types])
        for scope, declared in declarations(self._file):
            if isinstance(declared, Message):
                fields = [each.name for each in _fields(declared)]
                yield from _check_names(scope, [*(each.name for each in declared.types), *fields])

    def _faults_of_fields(self) -> Iterator[str]:
        for scope, declared in declarations(self._file):
            if not isinstance(declared, EnumType):
                yield from self._faults_in(scope, declared)

    def _faults_in(self, scope: str, message: Message) -> Iterator[str]:
        taken: dict[int, str] = {}
        for field in _fields(message):
            if isinstance(field, Field) and (wanted := self._unknown(field, scope)):
                # A map's values belong to the message that Java creates for its entries.
                owner = f"{field.name}Entry.value" if isinstance(field.type, MapType) else field.name
                yield f'{scope}.{owner}: "{wanted}" is not defined.'
            if field.tag <= 0:
                yield f"{scope}.{field.name}: Field numbers must be positive integers."
            first = taken.setdefault(field.tag, field.name)
            if first != field.name:
                used = f'Field number {field.tag} has already been used in "{scope}" by field "{first}".'
                yield f"{scope}.{field.name}: {used}"
        for group in message.all_groups():
            for field in group.fields:
                if wanted := self._unknown(field, scope):
                    yield f'{scope}.{group.name}.{field.name}: "{wanted}" is not defined.'

    def _unknown_in_services(self) -> Iterator[str]:
        for service in self._file.services:
            scope = inside(self._file.package, service.name)
            for rpc in service.rpcs:
                for name in (rpc.request, rpc.response):
                    if not self._sees(name, self._file.package):
                        yield f'{scope}.{rpc.name}: "{name}" is not defined.'

    def _unknown(self, field: Field, scope: str) -> str | None:
        name = field.type.value if isinstance(field.type, MapType) else field.type
        return None if name in SCALARS or self._sees(name, scope) else name

    def _sees(self, name: str, scope: str) -> bool:
        declared = self._names.type(name, scope)
        return declared is not None and (not declared.path or declared.path in self._visible)


def _fields(message: Message) -> Sequence[Field | Group]:
    return [*message.all_fields(), *message.all_groups()]


def _check_names(scope: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the errors of names in one scope: invalid names and duplicates."""
    seen: set[str] = set()
    for name in names:
        if not _IDENTIFIER.fullmatch(name):
            yield f'{inside(scope, name)}: "{name}" is not a valid identifier.'
        if name in seen:
            where = f' in "{scope}"' if scope else ""
            yield f'{inside(scope, name)}: "{name}" is already defined{where}.'
        seen.add(name)


def _visible(file: File, dependencies: Mapping[str, File]) -> frozenset[str]:
    """Return the paths of the imports of ``file``, and of those that they import publicly."""
    from .bundled import PROTOS  # noqa: PLC0415 (protobuf is loaded when its types are asked for)

    found: set[str] = set()
    todo = [*file.imports, *file.public_imports]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        if path in dependencies:
            todo += dependencies[path].public_imports
        elif path in PROTOS:
            proto = PROTOS[path]
            todo += [proto.dependency[place] for place in proto.public_dependency]
        else:
            continue
        found.add(path)
    return frozenset(found)
