"""Fields of its Worker that a worker may not write, because a hub would act on them."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.apiserver.admission.plugins.workerrestriction import worker_error
from shoal.fleet.worker.registration.decide import spec_patch
from shoal.fleet.worker.settings import WorkerSettings

Object = dict[str, Any]


def obj(**spec: Any) -> Object:
    return {"metadata": {"name": "far"}, "spec": spec}


@pytest.mark.parametrize(
    ("before", "now", "wrong"),
    [
        ({}, {"kubeconfigSecretRef": {"namespace": "a", "name": "b"}}, "a worker may not set kubeconfigSecretRef of"),
        ({"kubeconfigSecretRef": {"namespace": "a", "name": "b"}}, {}, "a worker may not set kubeconfigSecretRef of"),
        ({}, {"hubAddress": "https://evil"}, "a worker may not set hubAddress of its Worker"),
        ({"infrastructure": "external"}, {"infrastructure": "kind"}, "a worker may not change whether its Worker"),
        ({"infrastructure": "kind"}, {"infrastructure": "process"}, "a worker may not change whether its Worker"),
        ({"infrastructure": "kind"}, {"infrastructure": "kind", "version": "v1.36.4"}, ""),
    ],
)
def test_what_a_worker_may_not_say(before: Object, now: Object, wrong: str) -> None:
    said = worker_error("far", obj(**now), obj(**before), False)
    assert said.startswith(wrong)
    assert bool(said) == bool(wrong)


def test_one_that_came_by_its_bundle_leaves_what_was_declared() -> None:
    declared = obj(infrastructure="kind", capacity=7, location="north", provides=["embedded"])
    patch = spec_patch(declared, WorkerSettings("far", capacity=100, version="v1.36.4"), starts=True)
    assert patch is not None
    assert patch["spec"].keys() == {"version", "versions"}
