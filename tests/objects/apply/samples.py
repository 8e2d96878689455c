"""Schemas of the tests: a Deployment as built-ins are published, a ConfigMap, and a custom resource."""

from __future__ import annotations

from typing import Any

from shoal.objects.apply import Object, TypeSchema, apply, managed_fields_on_update

NOW = "2024-05-01T10:00:00Z"
LATER = "2024-05-01T10:00:05Z"
V1 = "example.com/v1"

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def map_list_schema(items: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def struct(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def ref(name: str, **extra: Any) -> dict[str, Any]:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], **extra}


META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
COMPONENTS: dict[str, dict[str, Any]] = {
    "Deployment": struct(metadata=ref(META, default={}), spec=ref("DeploymentSpec", default={})),
    "DeploymentSpec": struct(
        replicas=NUMBER,
        selector=ref("LabelSelector"),
        strategy=ref("Strategy", default={}),
        template=ref("PodTemplate", default={}),
    ),
    "LabelSelector": struct(matchLabels={"type": "object", "additionalProperties": TEXT})
    | {"x-kubernetes-map-type": "atomic"},
    "Strategy": struct(type=TEXT, rollingUpdate=ref("RollingUpdate")),
    "RollingUpdate": struct(maxSurge={"format": "int-or-string", "oneOf": [NUMBER, TEXT]}),
    "PodTemplate": struct(metadata=ref(META, default={}), spec=ref("PodSpec", default={})),
    "PodSpec": struct(
        containers=map_list_schema(ref("Container", default={}), "name"),
        nodeSelector={"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "atomic"},
    )
    | {"required": ["containers"]},
    "Container": struct(
        name=TEXT | {"default": ""},
        image=TEXT,
        args={"type": "array", "items": TEXT, "x-kubernetes-list-type": "atomic"},
        ports=map_list_schema(ref("Port", default={}), "containerPort", "protocol"),
        resources=ref("Resources", default={}),
    ),
    "Port": struct(containerPort=NUMBER | {"default": 0}, protocol=TEXT | {"default": "TCP"}, name=TEXT),
    "Resources": struct(
        limits={"type": "object", "additionalProperties": ref("io.k8s.apimachinery.pkg.api.resource.Quantity")}
    ),
}
DEPLOYMENT = TypeSchema(COMPONENTS["Deployment"], COMPONENTS.get)
CONFIG_MAP = TypeSchema(struct(data={"type": "object", "additionalProperties": TEXT}))
THING_SCHEMA = struct(
    spec=struct(
        replicas=NUMBER,
        size=TEXT,
        containers=map_list_schema(
            struct(
                name=TEXT,
                image=TEXT,
                ports=map_list_schema(struct(port=NUMBER, protocol=TEXT | {"default": "TCP"}), "port", "protocol"),
            ),
            "name",
        ),
        tags={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        steps={"type": "array", "items": TEXT},
        selector={"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "atomic"},
        options={"type": "object", "additionalProperties": TEXT},
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        network=struct(mode=TEXT, mtu=NUMBER),
    ),
    status=struct(phase=TEXT),
)
THING = TypeSchema(THING_SCHEMA)


def thing(spec: dict[str, Any] | None = None, **meta: Any) -> Object:
    out: Object = {"apiVersion": V1, "kind": "Thing", "metadata": {"name": "t", "namespace": "default", **meta}}
    if spec is not None:
        out["spec"] = spec
    return out


def update(
    live: Object | None, new: Object, manager: str, *, now: str = NOW, subresource: str = "", schema: TypeSchema = THING
) -> Object:
    """The object as it would be stored after an update: with its managedFields, and without touching `new`."""
    if live is not None and "managedFields" in live["metadata"] and "managedFields" not in new["metadata"]:
        new = {**new, "metadata": {**new["metadata"], "managedFields": live["metadata"]["managedFields"]}}
    entries = managed_fields_on_update(
        live, new, manager=manager, api_version=V1, schema=schema, now=now, subresource=subresource
    )
    meta = {name: value for name, value in new["metadata"].items() if name != "managedFields"}
    return {**new, "metadata": meta | ({"managedFields": entries} if entries else {})}


def apply_config(
    live: Object | None,
    config: Object,
    manager: str,
    *,
    force: bool = False,
    now: str = NOW,
    schema: TypeSchema = THING,
    subresource: str = "",
) -> Object:
    return apply(
        live, config, manager=manager, api_version=V1, schema=schema, force=force, now=now, subresource=subresource
    )


def owners(obj: Object) -> dict[str, Any]:
    """fieldsV1 by `manager/operation` (with the subresource, where there is one)."""
    return {
        "/".join(filter(None, (entry["manager"], entry["operation"], entry.get("subresource")))): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }
