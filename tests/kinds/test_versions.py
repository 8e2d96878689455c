"""The Kubernetes versions a cluster may have, and the APIs each of them serves."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.apiserver.registry import builtins
from shoal.kinds import versions
from shoal.kinds.catalogue import profile_builtins
from shoal.kinds.versions import (
    KUBERNETES_VERSION,
    NEWEST_MINOR,
    OLDEST_MINOR,
    minor_of,
    validate_hosted_version,
    validate_logical_cluster,
    version_error,
)

SUPPORTED = ", ".join(f'"v1.{minor}"' for minor in range(27, 37))


def served_resources(minor: int, name: str = "cluster") -> set[str]:
    return {resource.group_resource for resource in builtins.profile_resources(name, minor)}


@pytest.mark.parametrize(
    ("version", "minor"),
    [("", 36), ("v1.36.4", 36), ("v1.27.0", 27), ("1.30.2", 30), ("v1.26.9", 0), ("v1.37.0", 0), ("v2.30.0", 0)],
)
def test_the_minor_of_a_version(version: str, minor: int) -> None:
    assert minor_of(version) == minor


def test_the_newest_is_what_the_server_speaks() -> None:
    assert minor_of(KUBERNETES_VERSION) == NEWEST_MINOR
    everything = [builtin.plural for builtin in profile_builtins("cluster")]
    assert [resource.plural for resource in builtins.profile_resources("cluster")] == everything


def test_every_name_of_the_table_is_one_that_is_served() -> None:
    names = served_resources(NEWEST_MINOR) | {"pods/resize"}
    assert set(versions.INTRODUCED_IN) <= names
    assert set(versions.DEPRECATED_IN) <= names
    assert all(
        OLDEST_MINOR < minor <= NEWEST_MINOR
        for minor in (*versions.INTRODUCED_IN.values(), *versions.DEPRECATED_IN.values())
    )


@pytest.mark.parametrize(
    ("minor", "came"),
    [
        (28, {"selfsubjectreviews.authentication.k8s.io"}),
        (29, {"flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"}),
        (
            30,
            {
                "validatingadmissionpolicies.admissionregistration.k8s.io",
                "validatingadmissionpolicybindings.admissionregistration.k8s.io",
            },
        ),
        (31, set()),
        (32, set()),
        (33, {"ipaddresses.networking.k8s.io", "servicecidrs.networking.k8s.io"}),
        (
            34,
            {
                "deviceclasses.resource.k8s.io",
                "resourceclaims.resource.k8s.io",
                "resourceclaimtemplates.resource.k8s.io",
                "resourceslices.resource.k8s.io",
                "volumeattributesclasses.storage.k8s.io",
            },
        ),
        (35, set()),
        (
            36,
            {
                "mutatingadmissionpolicies.admissionregistration.k8s.io",
                "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
            },
        ),
    ],
)
def test_what_came_with_each_minor(minor: int, came: set[str]) -> None:
    assert served_resources(minor) - served_resources(minor - 1) == came
    assert served_resources(minor - 1) < served_resources(minor) or not came


def test_subresources_and_warnings_come_with_their_minor() -> None:
    old, new = (
        {r.plural: r for r in builtins.profile_resources("cluster", minor) if not r.group} for minor in (32, 33)
    )
    assert set(new["pods"].subresources) - set(old["pods"].subresources) == {"resize"}
    assert (old["endpoints"].deprecation_warning, new["endpoints"].deprecation_warning[:28]) == (
        "",
        "v1 Endpoints is deprecated i",
    )
    assert old["componentstatuses"].deprecation_warning == new["componentstatuses"].deprecation_warning != ""
    assert old["services"] is new["services"]


def test_a_hub_has_versions_too() -> None:
    assert served_resources(28, "hub") - served_resources(27, "hub") == {"selfsubjectreviews.authentication.k8s.io"}


@pytest.mark.parametrize(
    ("wanted", "current"), [("", None), ("v1.30.1", None), ("v1.36.0", "v1.27.3"), ("", "v1.30.0")]
)
def test_versions_that_are_fine(wanted: str, current: str | None) -> None:
    assert version_error(wanted, current) is None


@pytest.mark.parametrize(
    ("wanted", "current", "said"),
    [
        ("v1.37.0", None, f'spec.version: Unsupported value: "v1.37.0": supported values: {SUPPORTED}'),
        ("v1.26.0", "v1.27.0", f'spec.version: Unsupported value: "v1.26.0": supported values: {SUPPORTED}'),
        ("v1.30.0", "v1.31.2", "spec.version: Forbidden: a cluster cannot be downgraded from v1.31.2 to v1.30.0"),
        ("v1.35.0", "", "spec.version: Forbidden: a cluster cannot be downgraded from v1.36.4 to v1.35.0"),
    ],
)
def test_versions_that_are_refused(wanted: str, current: str | None, said: str) -> None:
    found = version_error(wanted, current)
    assert found is not None
    assert found.message == said


def object_with_version(version: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"version": version, **spec}}


def test_a_version_that_stays_is_not_looked_at_again() -> None:
    """A server that no longer supports the version must still allow the deletion of its cluster."""
    assert validate_logical_cluster(object_with_version("v1.20.0"), object_with_version("v1.20.0")) == []
    assert validate_hosted_version(object_with_version("v1.20.0"), object_with_version("v1.20.0", nodes=2)) == []
    assert len(validate_logical_cluster(object_with_version("v1.20.1"), object_with_version("v1.20.0"))) == 1


def test_kinds_that_ask_for_a_cluster() -> None:
    assert validate_hosted_version(object_with_version(""), object_with_version("v1.30.0")) == []
    assert validate_hosted_version(object_with_version("v1.30.0"), object_with_version("")) == []
    assert validate_hosted_version(object_with_version("v1.99.0", infrastructure="kind"), None) == []
    assert len(validate_hosted_version(object_with_version("v1.99.0", infrastructure="embedded"), None)) == 1
    assert len(validate_hosted_version(object_with_version("v1.30.0"), object_with_version("v1.31.0"))) == 1
