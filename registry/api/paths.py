"""Finding the resource of a path by its decoded segments: a subject may hold any character, even a slash."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from registry.domain.errors import NOT_FOUND

from .answers import refusal, send_answer
from .resource import STATE, Resource


class _Leaf(NamedTuple):
    resource: Resource
    names: tuple[str, ...]
    """Of the variable parts, in their order."""


_VARIABLE, _END = None, ()
_Tree = dict[Any, Any]
"""From a fixed word, ``_VARIABLE`` or ``_END`` to a tree or, under ``_END``, a leaf."""


class Paths:
    """All resources as one ASGI application; what it does not know is 404."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._tree: _Tree = {}
        for resource in resources:
            node, names = self._tree, []
            for part in resource.path.split("/"):
                if part:
                    variable = part.startswith("{")
                    names += [part[1:-1]] if variable else []
                    node = node.setdefault(_VARIABLE if variable else part, {})
            node[_END] = _Leaf(resource, tuple(names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the resource answer; a fixed word wins over a variable part."""
        node, values = self._tree, []
        for segment in scope[STATE]["target"].segments:
            child = node.get(segment)
            if child is None:
                child = node.get(_VARIABLE, {})
                values.append(segment)
            node = child
        leaf = node.get(_END)
        if leaf is None:
            await send_answer(refusal(NOT_FOUND()), scope, send)
        else:
            scope["path_params"] = dict(zip(leaf.names, values, strict=True))
            await leaf.resource(scope, receive, send)
