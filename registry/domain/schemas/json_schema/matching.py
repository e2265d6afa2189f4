"""Maximum bipartite matching: a largest set of disjoint pairs."""

from __future__ import annotations

from collections.abc import Sequence

from registry.domain.schemas.contract import Budget


def largest_matching(edges: Sequence[Sequence[int]], budget: Budget) -> list[int]:
    """Return each left vertex's partner, -1 for none; ``edges[left]`` lists the possible ones."""
    partner = [-1] * len(edges)
    taken: dict[int, int] = {}
    for left in range(len(edges)):
        _seat(left, edges, partner, taken, budget)
    return partner


def _seat(
    start: int, edges: Sequence[Sequence[int]], partner: list[int], taken: dict[int, int], budget: Budget
) -> None:
    """Find a partner for ``start`` by an augmenting path, breadth first."""
    came_from: dict[int, int] = {}
    queue = [start]
    for left in queue:
        for right in edges[left]:
            budget.spend()
            if right in came_from:
                continue
            came_from[right] = left
            holder = taken.get(right)
            if holder is not None:
                queue.append(holder)
                continue
            while True:
                mover = came_from[right]
                freed, partner[mover] = partner[mover], right
                taken[right] = mover
                if mover == start:
                    return
                right = freed  # noqa: PLW2901 (the mover's former partner goes to who wanted it)
