"""Associations of several resources with one subject: which may stand beside each other."""

from __future__ import annotations

import pytest

from registry.domain.commands import Associate, AssociationRequest, ResourceRequest
from registry.domain.queries.associations import ASSOCIATION_RULES
from registry.domain.queries.scope import Defaults
from tests.unit.small_registry import STRING, SmallRegistry

EXISTS, STRONG_EXISTS = 40904, 40905


def wanted(name: str, lifecycle: str, *kinds: str, create: bool = True) -> Associate:
    """Return the request of a resource with associations of these kinds, all with the subject ``s``."""
    associations = [AssociationRequest(kind, "s", lifecycle) for kind in kinds or ("value",)]
    return Associate(ResourceRequest(name, "ns", f"id-of-{name}", "topic", associations), ".", create)


@pytest.fixture
def small() -> SmallRegistry:
    # In 8.4, a strong association has a subject of its resource's name.
    found = SmallRegistry(Defaults(association_rules=ASSOCIATION_RULES["8.3"]))
    found.register("s", STRING)
    return found


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ("WEAK", "WEAK", 0),
        ("WEAK", "STRONG", EXISTS),
        ("STRONG", "STRONG", EXISTS),
        ("STRONG", "WEAK", STRONG_EXISTS),
    ],
)
def test_a_subject_that_a_resource_owns_belongs_to_no_other(
    small: SmallRegistry, before: str, after: str, refused: int, create: bool
) -> None:
    small.submit(wanted("one", before))
    command = wanted("two", after, create=create)
    if refused:
        assert small.refusal(command)[0] == refused
    else:
        small.submit(command)


def test_keys_and_values_of_one_resource_may_share_the_subject_that_it_owns(small: SmallRegistry) -> None:
    small.submit(wanted("one", "STRONG", "key", "value"))
    assert small.refusal(wanted("two", "STRONG"))[0] == EXISTS
