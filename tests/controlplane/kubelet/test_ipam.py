"""Tests of the IP allocator."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from shoal.controlplane.kubelet.ipam import IPAllocator


def test_addresses_are_unique_in_a_cluster_and_stay() -> None:
    given = IPAllocator(IPv4Network("10.0.0.0/28"))
    found = [given.allocate(("a", "default", f"p{number}"), f"uid-{number}") for number in range(14)]
    assert len(set(found)) == 14
    assert all(each.startswith("10.0.0.") for each in found)
    assert given.allocate(("a", "default", "p3"), "uid-3") == found[3]
    given.allocate(("b", "default", "p3"), "uid-3")
    with pytest.raises(RuntimeError, match="no free address"):
        given.allocate(("a", "default", "more"), "uid")
    given.release(("a", "default", "p3"))
    assert given.allocate(("a", "default", "more"), "uid") == found[3]


def test_addresses_that_objects_have_are_not_given_again() -> None:
    given = IPAllocator(IPv4Network("10.0.0.0/29"))
    for number in (1, 2, 3, 4, 5):
        given.occupy(("a", "", f"n{number}"), f"10.0.0.{number}")
    given.occupy(("a", "", "other"), "192.168.0.1")
    given.occupy(("a", "", "other"), "not an address")
    assert given.allocate(("a", "", "new"), "uid") == "10.0.0.6"
    given.occupy(("a", "", "n1"), "10.0.0.1")
    given.release(("a", "", "n1"))
    assert given.allocate(("a", "", "newer"), "uid") == "10.0.0.1"
