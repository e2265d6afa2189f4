"""Schemas in a descriptor pool of the protobuf library, with their options interpreted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as AnyMessage
from google.protobuf.message_factory import GetMessageClass

from registry.domain.schemas.contract import InvalidSchema

from .bundled import NAMES, PROTOS
from .model import File, Option, Value, Word
from .names import Names
from .to_descriptor import descriptor

_IN_STRINGS: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\000"}
# Options that are set together with the structure.
_STRUCTURE: Final = frozenset({"map_entry"})


class OptionSetter:
    """A setter of options, to call as :data:`.to_descriptor.SetOptions`."""

    def __init__(self, names: Names, find_pool: Callable[[], DescriptorPool | None]) -> None:
        """``find_pool`` is called once, at the first custom option."""
        self._names = names
        self._find_pool = find_pool
        self._pool: DescriptorPool | None = None
        self._asked = False

    def __call__(self, options: AnyMessage, given: Sequence[Option], scope: str) -> None:
        """Set the options ``given`` in ``options``."""
        extended: AnyMessage | None = None
        for option in given:
            if option.name in _STRUCTURE:
                continue
            full_name = self._names.extension(option.name, scope) if option.custom else option.name
            name = option.name if full_name is None else full_name
            text = "".join(self._text(f"[{name}]" if option.custom else name, option.value, scope))
            if option.custom and full_name is not None and extended is None:
                extended = self._with_extensions(options)
            into = extended if option.custom else options
            if full_name is None or into is None or not self._put(into, text):
                _leave(options, option, text)
        if extended is not None:
            options.MergeFromString(extended.SerializePartialToString(deterministic=True))

    def _with_extensions(self, options: AnyMessage) -> AnyMessage | None:
        """Return an empty message of the same kind that knows the extensions."""
        if not self._asked:
            self._pool, self._asked = self._find_pool(), True
        try:
            kind = self._pool and self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        except KeyError:
            return None
        return GetMessageClass(kind)() if kind else None

    def _put(self, into: AnyMessage, text: str) -> bool:
        one: AnyMessage = type(into)()
        try:
            text_format.Merge(text, one, descriptor_pool=self._pool)
        except (text_format.ParseError, KeyError, ValueError, TypeError):
            return False
        into.MergeFrom(one)
        return True

    def _text(self, name: str, value: Value, scope: str) -> Iterator[str]:
        """Yield a member in protobuf's text format."""
        first, dot, rest = name.partition(".")
        if dot and not name.startswith("["):
            yield f"{first} {{ {''.join(self._text(rest, value, scope))} }} "
        elif isinstance(value, tuple):
            for each in value:
                yield from self._text(name, each, scope)
        elif isinstance(value, Option):
            yield f"{name} {{ {''.join(self._text(value.name, value.value, scope))} }} "
        elif isinstance(value, Mapping):
            members = [self._text(self._member(key, scope), each, scope) for key, each in value.items()]
            yield f"{name} {{ {''.join(part for each in members for part in each)}}} "
        elif isinstance(value, Word):
            yield f"{name}: {value.text} "
        else:
            yield f'{name}: "{"".join(_IN_STRINGS.get(each, each) for each in value)}" '

    def _member(self, name: str, scope: str) -> str:
        if not name.startswith("["):
            return name
        return f"[{self._names.extension(name[1:-1], scope) or name[1:-1]}]"


def _leave(options: Any, option: Option, text: str) -> None:
    """Add an unresolved option in the form of the compiler's parser."""
    left = options.uninterpreted_option.add()
    left.name.add(name_part=option.name, is_extension=option.custom)
    value = option.value
    while isinstance(value, Option):
        left.name.add(name_part=value.name, is_extension=False)
        value = value.value
    if isinstance(value, str):
        left.string_value = value.encode()
    elif isinstance(value, Word) and not value.is_number:
        left.identifier_value = value.text
    elif isinstance(value, Word):
        _leave_number(left, value.text)
    else:
        left.aggregate_value = text


def _leave_number(left: Any, text: str) -> None:
    try:
        number = int(text, 0) if len(text) < 100 else float(text)
    except ValueError:
        left.identifier_value = text
        return
    if isinstance(number, float) or not -(2**63) <= number < 2**64:
        left.double_value = float(number)
    elif number < 0:
        left.negative_int_value = number
    else:
        left.positive_int_value = number


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
