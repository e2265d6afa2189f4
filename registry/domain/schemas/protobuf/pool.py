"""Schemas and their imports in a descriptor pool of the protobuf library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from registry.domain.schemas.contract import InvalidSchema

from .bundled import NAMES, PROTOS
from .model import File
from .names import Names
from .option_setter import OptionSetter
from .to_descriptor import descriptor

# Confluent's name for the file itself.
_OWN: Final = "default"
_NOTHING: Final = File("", "", (), (), (), (), (), ())


class Pools:
    """A file with its dependencies, which come in order with their import paths."""

    def __init__(self, file: File, names: Names, dependencies: Iterable[tuple[str, File]]) -> None:
        self._file = file
        self._names = names
        self._dependencies = [each for each in dependencies if each[0] not in PROTOS]
        self._known = {*PROTOS, *(path for path, _ in self._dependencies)}

    def descriptor(self) -> FileDescriptorProto:
        """Return the descriptor of the file itself, options included. Raises :class:`InvalidSchema`."""
        set_options = OptionSetter(self._names, self._pool_or_none)
        return descriptor(self._file, self._names, _OWN, set_options, self._known)

    def _pool_or_none(self) -> DescriptorPool | None:
        try:
            return self.pool()
        except InvalidSchema:
            return None

    def pool(self) -> DescriptorPool:
        """Return a pool with the file and everything that it needs. Raises :class:`InvalidSchema`."""
        pool = DescriptorPool()
        shared = Names(_NOTHING, self._dependencies, lambda: NAMES)
        protos = [self._proto(file, shared, path) for path, file in self._dependencies]
        protos.append(self._proto(self._file, self._names, _OWN))
        try:
            for proto in (*_bundled_files(protos), *protos):
                pool.AddSerializedFile(proto.SerializeToString())
        except (TypeError, ValueError, KeyError) as error:
            raise InvalidSchema(f"Invalid Protobuf schema: {error}") from None
        return pool

    def _proto(self, file: File, names: Names, path: str) -> FileDescriptorProto:
        standard = OptionSetter(names, lambda: None)
        return descriptor(file, names, path, standard, self._known)


def _bundled_files(protos: Iterable[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Return the required bundled files; a schema may declare what it does not import."""
    needed = {path for proto in protos for path in proto.dependency}
    for path, proto in reversed(PROTOS.items()):
        if path in needed:
            needed.update(proto.dependency)
    return [proto for path, proto in PROTOS.items() if path in needed]
