"""``registrar decode``: messages of producers as JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from registry.base.config.loading import Loaded
from registry.cli.output import FAILED, OK, REFUSED, Failure, json_option, note, print_error
from registry.cli.registry_flags import with_registry
from registry.cli.setting_flags import with_settings
from registry.cli.verb import SectionOption, Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.decoding.frame import Headers
    from registry.log.kafka.messages import Message

_COUNT_MAX = 1_000_000
_TIMEOUT_S = 10.0
# Text of messages, one on each line.
_TEXT_BYTES_MAX = 64 * 1024 * 1024
_EARLIEST, _LATEST = "earliest", "latest"
_IN_TOPIC = "Messages of a topic"
_SHOWN = ("kafka", "kafka_security_protocol")


class _Given(NamedTuple):
    """A message that was given, in the wire format."""

    # Its place in the input, for messages; a description of it, for JSON.
    place: str
    about: dict[str, Any]
    # None for a record without value.
    data: bytes | None
    headers: Headers = ()


class _Position(NamedTuple):
    """The messages of a topic that were asked for."""

    topic: str
    partition: int
    offset: str
    number: int
    keys: bool


def _in_topic(*words: str, **rest: Any) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return click.option(*words, cls=SectionOption, section=_IN_TOPIC, **rest)


@click.command(
    "decode", cls=Verb, epilog="Exit status: 0 decoded, 1 a message cannot be decoded, 2 no answer."
)
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--hex", "as_hex", is_flag=True, help="The input is hexadecimal, one message per line.")
@click.option("--base64", "as_base64", is_flag=True, help="The input is Base64, one message per line.")
@click.option("--context", default="", metavar="CONTEXT", help="Context of the schema ids [default: .].")
@click.option(
    "--avro-json", is_flag=True, help="Print Avro in its own JSON encoding: unions with types, raw numbers."
)
@click.option("--validate", is_flag=True, help="Validate JSON Schema messages against their schema.")
@json_option
@_in_topic(
    "--topic", default="", metavar="TOPIC", help="Read messages of this topic, with the Kafka settings."
)
@_in_topic("--partition", type=click.IntRange(0), default=0, help="Partition [default: 0].")
@_in_topic("--offset", default=_LATEST, metavar="N", help="Offset, earliest, or latest [default: latest].")
@_in_topic("--count", type=click.IntRange(1, _COUNT_MAX), default=1, help="Number of messages [default: 1].")
@_in_topic("--keys", is_flag=True, help="Decode keys instead of values.")
@with_settings("security", also=("kafka",), shown=_SHOWN, refused=FAILED)
@with_registry
def decode(
    registry: RegistryClient,
    loaded: Loaded,
    *,
    file: BinaryIO,
    as_hex: bool,
    as_base64: bool,
    context: str,
    avro_json: bool,
    validate: bool,
    as_json: bool,
    topic: str,
    partition: int,
    offset: str,
    count: int,
    keys: bool,
) -> int:
    """Print messages in Confluent's wire format as JSON, by the schemas in the registry.

    FILE holds one message as bytes; by default, or for "-", it is standard input. Name the registry with
    --url, the brokers of a --topic with --kafka.
    """
    from registry.cli.decoding.frame import Options  # noqa: PLC0415 - the help needs no decoder

    from .decoding_schemas import SchemasById  # noqa: PLC0415 - as above

    schemas = SchemasById(registry, context, Options(avro_json, validate))
    if topic:
        if not loaded.settings.kafka:
            raise Failure("--topic needs --kafka HOST:PORT, the brokers that hold the topic")
        given = _of_topic(loaded, _Position(topic, partition, offset, count, keys))
    elif as_hex or as_base64:
        given = _of_text(file, as_hex=as_hex)
    else:
        given = _of_bytes(file)
    return _print_each(given, schemas, keys=keys, with_details=as_json)


def _print_each(given: Iterator[_Given], schemas: Any, *, keys: bool, with_details: bool) -> int:
    """Print every message; return the exit status."""
    from registry.cli.decoding.frame import CannotDecode  # noqa: PLC0415 - as above

    status = OK
    for message in given:
        try:
            line, warnings = schemas.line(message.about, message.data, message.headers, keys, with_details)
        except CannotDecode as error:
            note(f"{message.place}{error}")
            if with_details:
                print_error(str(error), REFUSED, about=message.about)
            status = REFUSED
            continue
        for text in warnings:
            note(f"{message.place}{text}")
        print(line)
        sys.stdout.flush()
    return status


def _of_bytes(file: BinaryIO) -> Iterator[_Given]:
    from registry.cli.decoding.frame import MESSAGE_BYTES_MAX  # noqa: PLC0415 - as above

    yield _Given("", {}, file.read(MESSAGE_BYTES_MAX + 1))


def _of_text(file: BinaryIO, *, as_hex: bool) -> Iterator[_Given]:
    import base64  # noqa: PLC0415 - as above

    text = file.read(_TEXT_BYTES_MAX + 1)
    if len(text) > _TEXT_BYTES_MAX:
        raise Failure(f"the input is larger than {_TEXT_BYTES_MAX} bytes")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            data = bytes.fromhex(line.decode()) if as_hex else base64.b64decode(line.strip(), validate=True)
        except ValueError as error:
            raise Failure(f"line {number} is not {'hexadecimal' if as_hex else 'Base64'}: {error}") from None
        yield _Given(f"line {number}: ", {"line": number}, data)


def _of_topic(loaded: Loaded, wanted: _Position) -> Iterator[_Given]:
    from registry.log.contract import LogError  # noqa: PLC0415 - as above
    from registry.log.kafka.messages import open_messages  # noqa: PLC0415 - as above
    from registry.log.kafka.security import Security  # noqa: PLC0415 - as above

    settings = loaded.settings
    about = {"topic": wanted.topic, "partition": wanted.partition}
    opened = open_messages(
        Security(**settings.security), settings.kafka, wanted.topic, wanted.partition, timeout_s=_TIMEOUT_S
    )
    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        try:
            messages = runner.run(stack.enter_async_context(opened))
            start, end = runner.run(messages.bounds())
            first = _first(wanted, start, end)
            found = messages.read(first, end)
            for _ in range(wanted.number):
                message = runner.run(_next(found))
                if message is None:
                    break
                yield _Given(
                    f"offset {message.offset}: ",
                    {**about, "offset": message.offset, "timestamp": message.timestamp_ms},
                    message.key if wanted.keys else message.value,
                    message.headers,
                )
        except LogError as error:
            raise Failure(str(error)) from None
        finally:
            runner.run(stack.aclose())


async def _next(messages: AsyncIterator[Message]) -> Message | None:
    return await anext(messages, None)


def _first(wanted: _Position, start: int, end: int) -> int:
    name = f"partition {wanted.partition} of topic {wanted.topic}"
    if wanted.offset == _EARLIEST:
        return start
    if wanted.offset == _LATEST:
        return max(start, end - wanted.number)
    if not wanted.offset.isascii() or not wanted.offset.isdigit():
        raise Failure(f"--offset {wanted.offset} is not valid: give a number, earliest or latest")
    offset = int(wanted.offset[:20])
    if not start <= offset < end:
        holds = f"it has those from {start} to {end - 1}" if end > start else "it is empty"
        raise Failure(f"{name} has no offset {wanted.offset}: {holds}")
    return offset
