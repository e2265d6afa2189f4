"""Flags and arguments that many verbs share: the registry, a subject or context, a past moment."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .output import OK, Failure, Refusal, print_lines
from .verb import SectionOption

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.client.connect import Connection


_at_offset = click.option(
    "--at-offset", type=click.IntRange(0), metavar="N", help="Show the state after the record at this offset."
)
_at_time = click.option(
    "--at-time", metavar="TIME", help="Show the state at this time: ISO 8601, or ms since the epoch."
)


def moment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--at-offset`` and ``--at-time`` to a verb."""
    return _at_offset(_at_time(command))


def moment_params(at_offset: int | None, at_time: str | None) -> dict[str, Any]:
    """Return the parameters of a read of the past, none for the present."""
    if at_offset is None and at_time is None:
        return {}
    if at_offset is not None and at_time is not None:
        raise click.UsageError("give --at-offset or --at-time, not both", click.get_current_context())
    from registry.cli.client.client import AT_OFFSET, AT_TIME  # noqa: PLC0415 - the help needs no client

    return {AT_OFFSET: at_offset, AT_TIME: at_time}


def _require_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    # A variable of a script that is not set must not change everything.
    name = parameter.name or ""
    if not value and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        raise click.BadParameter("it is empty; leave it out to mean everything", context, parameter)
    return value


scope_argument = click.argument("subject", default="", callback=_require_name)
yes_option = click.option("--yes", is_flag=True, help="Do not ask before changes to the whole registry.")


etag_option = click.option(
    "--etag", is_flag=True, help='Print only the ETag, for --if-match; "none" if there is nothing.'
)
if_match_option = click.option(
    "--if-match",
    metavar="ETAG",
    default="",
    help='Change nothing unless what is there has this ETag ("none": unless nothing is there).',
)


def print_etag(registry: RegistryClient, path: str, **params: Any) -> int:
    """Print the ETag of a resource; return the exit status."""
    _, tag = registry.get_with_tag(path, **params)
    if not tag:
        raise Failure(
            f"{registry.url} has no ETag for {path}: only reads of a version, config or mode have one"
        )
    print_lines([tag.strip('"')])
    return OK


def confirm_everything(subject: str, question: str, *, yes: bool) -> None:
    """Ask before something is done to all subjects; end the verb if nobody says yes."""
    if subject or yes:
        return
    if not sys.stdin.isatty():
        raise Failure("this concerns the whole registry: name a subject or a context, or confirm with --yes")
    if not click.confirm(question, err=True):
        raise Refusal("nothing was changed")


_SECTION = "Registry"


def with_registry(run: Callable[..., int]) -> Callable[..., int]:
    """Give a verb a :class:`RegistryClient` as its first argument, and the flags that say how to reach it.

    An error of the client ends the verb: with ``REFUSED`` if it is the registry's verdict, else with
    ``FAILED``.
    """

    @functools.wraps(run)
    def with_client(connection: Connection, *more: Any, **given: Any) -> int:
        with report_errors(), connection.open(os.environ) as client:
            return run(client, *more, **given)

    return with_connection()(with_client)


def with_connection(*, url: bool = True) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a verb a :class:`Connection` as its first argument, in front of those of decorators above.

    Without the flag ``--url``, the verb names registries itself and opens its clients by
    ``connection.open(os.environ, url)``, within :func:`report_errors`.
    """

    def decorate(run: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(run)
        def with_made(*more: Any, ca: str, certificate: str, key: str, timeout: float, **given: Any) -> int:
            from registry.cli.client.addresses import PROFILE  # noqa: PLC0415 - the help needs no client
            from registry.cli.client.connect import Connection  # noqa: PLC0415 - as above

            named = given.pop("url") if url else ""
            if url and (profile := given.pop("registry")):
                if named:
                    raise click.UsageError("give --url or --registry, not both", click.get_current_context())
                named = f"{PROFILE}{profile}"
            return run(Connection(named, ca, certificate, key, timeout), *more, **given)

        # In this list, click keeps the options of a function that is decorated, the last one first.
        parameters: list[click.Parameter] = with_made.__dict__.setdefault("__click_params__", [])
        parameters[:0] = reversed([*(_names() if url else []), *_options()])
        return with_made

    return decorate


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error of the client into a message and an exit status."""
    from registry.cli.client.resources import ErrorAnswer, RegistryError  # noqa: PLC0415 - the help needs no client

    try:
        yield
    except ErrorAnswer as error:
        raise (Refusal if error.is_verdict else Failure)(str(error), error.code) from None
    except RegistryError as error:
        raise Failure(str(error)) from None


def _names() -> Iterator[SectionOption]:
    yield SectionOption(
        ["--url"],
        section=_SECTION,
        default="",
        metavar="URL,URL…",
        help="The registry, by one or more of its addresses [environment: REGISTRAR_URL; default: "
        "http://127.0.0.1:8081]. Credentials: REGISTRAR_USER=NAME:PASSWORD, REGISTRAR_TOKEN, or ~/.netrc.",
    )
    yield SectionOption(
        ["--registry"],
        section=_SECTION,
        default="",
        metavar="NAME",
        help="The registry, by its name in ~/.config/registrar/registries.toml. "
        "Where a URL is expected, write @NAME.",
    )


def _options() -> Iterator[SectionOption]:
    for flag, metavar, does in (
        ("--ca", "FILE", "CA that signed the registry's certificate, PEM [environment: REGISTRAR_CA]."),
        ("--certificate", "FILE", "Certificate of this client, PEM [environment: REGISTRAR_CERTIFICATE]."),
        ("--key", "FILE", "Private key of that certificate, PEM [environment: REGISTRAR_KEY]."),
    ):
        yield SectionOption([flag], section=_SECTION, default="", metavar=metavar, help=does)
    yield SectionOption(
        ["--timeout"],
        section=_SECTION,
        type=click.FloatRange(0.1, 3600),
        default=30.0,
        metavar="SECONDS",
        help="Timeout of a request [default: 30].",
    )
