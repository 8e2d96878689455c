"""Validation of Lease."""

from __future__ import annotations

from typing import Any

from shoal.kinds.coordination.lease import prepare_lease_create, validate_lease


def test_a_lease_that_was_let_go_has_an_empty_holder() -> None:
    assert validate_lease({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}, None) == []


def test_durations_are_positive_and_transitions_not_negative() -> None:
    causes = validate_lease({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}, None)
    assert [cause.message for cause in causes] == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_elections_among_candidates_are_not_kept() -> None:
    lease: dict[str, Any] = {"spec": {"holderIdentity": "a", "strategy": "x", "preferredHolder": "b"}}
    prepare_lease_create(lease)
    assert lease == {"spec": {"holderIdentity": "a"}}
