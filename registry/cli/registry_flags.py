"""Flags that say which registry a verb talks to, and its errors as exit statuses."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .exit_status import Failure, Refusal
from .verb import SectionOption

if TYPE_CHECKING:
    from registry.cli.client.connect import Connection

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
    from registry.cli.client.errors import ErrorAnswer, RegistryError  # noqa: PLC0415 - the help needs no client

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
