"""List digests: equal for equal objects, and otherwise they name the differing buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.objects import digest

HELD = st.dictionaries(st.text("abc/é", min_size=1, max_size=6), st.integers(1, 2**40), max_size=30)


@given(HELD, HELD, st.sampled_from([1, 8, 32]))
def test_whatever_differs_is_in_a_bucket_that_does(ours: dict[str, int], theirs: dict[str, int], buckets: int) -> None:
    first, second = (digest.bucket_sums(held.items(), buckets) for held in (ours, theirs))
    different = digest.differing_buckets(first, second)
    changed = {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    assert {digest.bucket_of(key, buckets) for key in changed} == set(different)


@given(HELD)
def test_the_order_does_not_matter(held: dict[str, int]) -> None:
    assert digest.bucket_sums(held.items(), 8) == digest.bucket_sums(reversed(held.items()), 8)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=digest.MAX_BUCKETS))
def test_it_travels_in_a_url(sums: list[int]) -> None:
    text = digest.encode(sums)
    assert text.replace("-", "").replace("_", "").isalnum()
    assert digest.decode(text) == tuple(sums)


@pytest.mark.parametrize("text", ["", "a", "AAAA", "!" * 11, digest.encode([1] * (digest.MAX_BUCKETS + 1)), "é"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        digest.decode(text)


@pytest.mark.parametrize(("count", "buckets"), [(0, 8), (64, 8), (65, 16), (1000, 128), (10**6, 128)])
def test_more_objects_have_more_buckets(count: int, buckets: int) -> None:
    assert digest.buckets_for(count) == buckets
