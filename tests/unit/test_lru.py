from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry.domain.lru import Lru


def held(cache: Lru[int, int], keys: range) -> list[int]:
    """Return the keys with a value, without a lasting effect on the order: all are used in turn."""
    return [key for key in keys if cache.get(key) is not None]


def test_the_value_used_least_recently_is_evicted_first() -> None:
    cache = Lru[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_replaced_value_counts_with_its_new_weight_alone() -> None:
    cache = Lru[str, int](10)
    for weight in (9, 4, 6):
        cache.put("a", weight, weight)
    cache.put("b", 4, 4)
    assert (cache.get("a"), cache.get("b")) == (6, 4)


def test_a_value_above_the_bound_is_kept_only_if_it_is_among_the_least_that_stay() -> None:
    none, one = Lru[str, int](10), Lru[str, int](10, least=1)
    for cache in (none, one):
        cache.put("small", 1)
        cache.put("large", 2, 11)
    assert (none.get("large"), len(none)) == (None, 0)
    assert (one.get("large"), len(one)) == (2, 1)


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "remove"]), st.integers(0, 5), st.integers(1, 5))))
def test_any_use_leaves_the_most_recently_used_values_within_the_bound(
    uses: list[tuple[str, int, int]],
) -> None:
    bound = 8
    cache = Lru[int, int](bound)
    expected: dict[int, int] = {}  # weights by key, ascending by last use
    for use, key, weight in uses:
        if use == "remove":
            cache.remove(key)
            expected.pop(key, None)
        elif use == "put":
            cache.put(key, key, weight)
            expected.pop(key, None)
            expected[key] = weight
            while sum(expected.values()) > bound:
                del expected[next(iter(expected))]
        elif cache.get(key) is not None:
            expected[key] = expected.pop(key)
    assert held(cache, range(6)) == sorted(expected)
    assert len(cache) == len(expected)
