"""Lookup of built-in schemas."""

from __future__ import annotations

import pytest

from shoal.kinds.builtin_schemas import builtin_schema, direct_references, schema_closure, schema_name
from shoal.kinds.catalogue import builtin_resources

CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"


def test_a_definition_keeps_what_kubectl_explain_shows() -> None:
    config_map = builtin_schema(CONFIG_MAP)
    assert config_map["description"] == "ConfigMap holds configuration data for pods to consume."
    assert config_map["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "ConfigMap", "version": "v1"}]
    assert config_map["properties"]["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{META}.ObjectMeta"}]


def test_a_definition_keeps_extensions_and_defaults() -> None:
    ports = builtin_schema("io.k8s.api.core.v1.ServiceSpec")["properties"]["ports"]
    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["port", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "port"
    assert builtin_schema("io.k8s.api.core.v1.ServicePort")["properties"]["protocol"]["default"] == "TCP"


@pytest.mark.parametrize("name", ["io.k8s.api.core.v1.Config", "io.k8s.api.core.v9.ConfigMap", "ConfigMap", ""])
def test_an_unknown_definition(name: str) -> None:
    with pytest.raises(KeyError, match=f"no definition '{name}'"):
        builtin_schema(name)


@pytest.mark.parametrize(
    ("group", "version", "kind", "name"),
    [
        ("", "v1", "ConfigMap", CONFIG_MAP),
        ("apps", "v1", "DeploymentList", "io.k8s.api.apps.v1.DeploymentList"),
        ("rbac.authorization.k8s.io", "v1", "Role", "io.k8s.api.rbac.v1.Role"),
        ("", "v1", "Status", f"{META}.Status"),
        ("apps", "v1", "DeleteOptions", f"{META}.DeleteOptions"),
    ],
)
def test_definition_of(group: str, version: str, kind: str, name: str) -> None:
    assert schema_name(group, version, kind) == name
    assert builtin_schema(name)["type"] == "object"


def test_definition_of_an_unknown_kind() -> None:
    with pytest.raises(KeyError):
        schema_name("example.com", "v1", "Widget")


def test_closure() -> None:
    names = {"ObjectMeta", "OwnerReference", "ManagedFieldsEntry", "Time", "FieldsV1"}
    assert schema_closure([CONFIG_MAP]).keys() == {CONFIG_MAP} | {f"{META}.{name}" for name in names}
    assert schema_closure([]) == {}


def test_closure_of_a_recursive_definition() -> None:
    props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    found = schema_closure([props])
    assert props in set(direct_references(found[props]))
    assert all(set(direct_references(schema)) <= found.keys() for schema in found.values())


def test_every_builtin_has_a_complete_definition() -> None:
    names = {schema_name(b.group, b.version, b.kind) for b in builtin_resources()}
    assert len(schema_closure(names)) > 500
