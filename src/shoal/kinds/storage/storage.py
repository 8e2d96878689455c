"""The kinds of storage.k8s.io/v1: defaults, validation and immutable fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.kinds.core.persistentvolume import default_volume_spec, validate_inline_volume
from shoal.kinds.core.pod_warnings import DEPRECATED_NODE_LABELS, node_selector_term_warnings
from shoal.kinds.core.volume_sources import validate_csi_driver_name
from shoal.kinds.validation.field import (
    NOT_NEGATIVE,
    Object,
    ensure_map,
    invalid_causes,
    set_defaults,
    validate_enum,
    validate_immutable,
    validate_label_selector,
    validate_nonnegative,
)
from shoal.kinds.validation.resource_list import exact_quantity, quantity_of
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required_value, too_long
from shoal.objects.names import is_dns1123_subdomain, is_qualified_name
from shoal.objects.quantity import ZERO

MAX_PARAMETERS, MAX_PARAMETERS_BYTES = 512, 256 * 1024
MAX_METADATA_BYTES, MAX_MESSAGE_BYTES = 256 * 1024, 1024
MAX_NODE_ID_LENGTH = 256
DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
SIMULATED_CLASS, SIMULATED_PROVISIONER = "simulated", "shoal.dev/simulated"
SIMULATED_DRIVER = "simulated.shoal.dev"
_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def default_storage_class(obj: Object) -> None:
    set_defaults(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def simulated_storage_class() -> Object:
    """Returns the StorageClass every cluster starts with: its volumes exist only as objects."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": SIMULATED_CLASS, "annotations": {DEFAULT_CLASS_ANNOTATIONS[0]: "true"}},
        "provisioner": SIMULATED_PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def default_storage_class_name(classes: Iterable[Object]) -> str:
    """Returns the name of the default StorageClass: the newest one marked as default, the first by name among
    equals.
    """
    marked = [one["metadata"] for one in classes if _is_default_class(one["metadata"].get("annotations") or {})]
    marked.sort(key=lambda metadata: metadata["name"])
    newest = max((metadata.get("creationTimestamp") or "" for metadata in marked), default="")
    return next((str(one["name"]) for one in marked if (one.get("creationTimestamp") or "") == newest), "")


def _is_default_class(annotations: dict[str, str]) -> bool:
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)


def validate_storage_class(obj: Object, old: Object | None) -> list[Cause]:
    causes = _validate_provisioner(obj.get("provisioner") or "", "provisioner")
    causes += _validate_parameters(obj.get("parameters") or {})
    causes += validate_enum(obj["reclaimPolicy"] or None, "reclaimPolicy", "Delete", "Retain")
    causes += validate_enum(obj["volumeBindingMode"], "volumeBindingMode", "Immediate", "WaitForFirstConsumer")
    causes += _validate_topologies(obj.get("allowedTopologies") or [])
    if old is not None:
        causes += validate_immutable(obj, old, "", "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return causes


def _validate_topologies(terms: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    # An empty term counts as a duplicate.
    seen_terms: list[dict[str, set[str]]] = [{}]
    for i, term in enumerate(terms):
        path, requirements = f"allowedTopologies[{i}].matchLabelExpressions", dict[str, set[str]]()
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            item_path, key, values = f"{path}[{j}]", expression.get("key") or "", expression.get("values") or []
            if not values:
                causes.append(required_value(f"{item_path}.values"))
            causes += [duplicate(f"{item_path}.values[{k}]", one) for k, one in enumerate(values) if one in values[:k]]
            causes += invalid_causes(f"{item_path}.key", key, is_qualified_name(key))
            if key in requirements:
                causes.append(duplicate(f"{item_path}.key", key))
            requirements[key] = set(values)
        if requirements in seen_terms:
            causes.append(duplicate(path, ""))
        seen_terms.append(requirements)
    return causes


def warn_storage_class(obj: Object, old: Object | None) -> list[str]:
    return [
        f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {DEPRECATED_NODE_LABELS[expression['key']]}"
        for i, term in enumerate(obj.get("allowedTopologies") or ())
        for j, expression in enumerate(term.get("matchLabelExpressions") or ())
        if expression.get("key") in DEPRECATED_NODE_LABELS
    ]


def validate_volume_attributes_class(obj: Object, old: Object | None) -> list[Cause]:
    causes = []
    if old is not None:
        for field in ("driverName", "parameters"):
            if obj.get(field) != old.get(field):
                causes.append(forbidden_field(field, f"updates to {field} are forbidden."))
    causes += _validate_provisioner(obj.get("driverName") or "", "driverName") + _validate_parameters(
        obj.get("parameters") or {}
    )
    if not obj.get("parameters"):
        causes.append(required_value("parameters", "must contain at least one key/value pair"))
    return causes


def _validate_provisioner(name: str, path: str) -> list[Cause]:
    return invalid_causes(path, name.lower(), is_qualified_name(name.lower())) if name else [required_value(path)]


def _validate_parameters(parameters: dict[str, str]) -> list[Cause]:
    if len(parameters) > MAX_PARAMETERS:
        return [too_long("parameters", MAX_PARAMETERS)]
    causes = [invalid_value("parameters", "", "field can not be empty.")] if "" in parameters else []
    if _total_bytes(parameters) > MAX_PARAMETERS_BYTES:
        causes.append(too_long("parameters", MAX_PARAMETERS_BYTES))
    return causes


def _total_bytes(texts: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())


def default_volume_attachment(obj: Object) -> None:
    source = ensure_map(ensure_map(obj, "spec"), "source")
    if source.get("inlineVolumeSpec") is not None:
        default_volume_spec(source["inlineVolumeSpec"])
    status = ensure_map(obj, "status")
    set_defaults(status, attached=False)
    for error in (status.get("attachError"), status.get("detachError")):
        if error is not None:
            error.setdefault("time", None)


def validate_volume_attachment(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = validate_csi_driver_name(spec.get("attacher") or "", "spec.attacher") + _validate_source(spec["source"])
    node = spec.get("nodeName") or ""
    causes += invalid_causes("spec.nodeName", node, is_dns1123_subdomain(node))
    status = obj.get("status") or {}
    if _total_bytes(status.get("attachmentMetadata") or {}) > MAX_METADATA_BYTES:
        causes.append(too_long("status.attachmentMetadata", MAX_METADATA_BYTES))
    for field in ("attachError", "detachError"):
        causes += _validate_volume_error(status.get(field) or {}, f"status.{field}")
    volume = spec["source"].get("persistentVolumeName")
    if volume is not None:
        causes += invalid_causes("spec.source.persistentVolumeName", volume, is_dns1123_subdomain(volume))
    if old is not None:
        causes += validate_immutable(obj, old, "", "spec")
    return causes


def _validate_source(source: Object) -> list[Cause]:
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and volume is None:
        return [required_value("spec.source", _ONE_SOURCE)]
    if inline is not None and volume is not None:
        return [forbidden_field("spec.source", _ONE_SOURCE)]
    if inline is not None:
        return validate_inline_volume(inline, "spec.source.inlineVolumeSpec")
    path = "spec.source.persistentVolumeName"
    return [] if volume else [required_value(path, "must specify non empty persistentVolumeName")]


def _validate_volume_error(error: Object, path: str) -> list[Cause]:
    causes = []
    if len((error.get("message") or "").encode()) > MAX_MESSAGE_BYTES:
        # Upstream reports this limit although it compares with the other.
        causes.append(too_long(f"{path}.message", MAX_METADATA_BYTES))
    if (error.get("errorCode") or 0) < 0:
        causes.append(
            invalid_value(f"{path}.errorCode", error["errorCode"], "must be between 0 and 2147483647, inclusive")
        )
    return causes


def default_csi_driver(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    flags = dict.fromkeys(("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"), False)
    set_defaults(spec, attachRequired=True, fsGroupPolicy="ReadWriteOnceWithFSType", **flags)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def prepare_csi_driver_create(obj: Object) -> None:
    _drop_disabled(obj["spec"], {})


def prepare_csi_driver_update(new: Object, old: Object) -> None:
    spec, before = new["spec"], old["spec"]
    _drop_disabled(spec, before)
    if spec != before:
        # The generation is counted from the first change on; a new object has none.
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _drop_disabled(spec: Object, before: Object) -> None:
    """Drops a field of a feature gate that is off by default."""
    if before.get("preventPodSchedulingIfMissing") is None:
        spec.pop("preventPodSchedulingIfMissing", None)


def validate_csi_driver(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    policy = spec["fsGroupPolicy"]
    causes = validate_enum(policy, "spec.fsGroupPolicy", "File", "None", "ReadWriteOnceWithFSType")
    causes += _validate_token_requests(spec.get("tokenRequests") or [])
    for mode in spec["volumeLifecycleModes"]:
        causes += validate_enum(mode, "spec.volumeLifecycleModes", "Persistent", "Ephemeral")
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        path = "spec.nodeAllocatableUpdatePeriodSeconds"
        causes.append(invalid_value(path, period, "must be greater than or equal to 10 seconds"))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        causes.append(invalid_value("spec.serviceAccountTokenInSecrets", in_secrets, detail))
    if old is not None:
        if spec["attachRequired"] != old["spec"].get("attachRequired"):
            causes.append(invalid_value("spec.attachedRequired", spec["attachRequired"], "field is immutable"))
        causes += validate_immutable(spec, old["spec"], "spec", "volumeLifecycleModes")
    return causes


def warn_csi_driver(obj: Object, old: Object | None) -> list[str]:
    requests = obj["spec"].get("tokenRequests")
    if not requests or obj["spec"].get("serviceAccountTokenInSecrets") is not None:
        return []
    return [] if old is not None and requests == old["spec"].get("tokenRequests") else [_TOKENS_IN_ATTRIBUTES]


def _validate_token_requests(requests: list[Object]) -> list[Cause]:
    causes, seen = [], set()
    for i, request in enumerate(requests):
        path, audience = f"spec.tokenRequests[{i}]", request.get("audience", "")
        if audience in seen:
            causes.append(duplicate(f"{path}.audience", audience))
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            detail = "may not specify a duration less than 10 minutes"
            causes.append(invalid_value(f"{path}.expirationSeconds", seconds, detail))
        if seconds is not None and seconds > 1 << 32:
            detail = "may not specify a duration larger than 2^32 seconds"
            causes.append(invalid_value(f"{path}.expirationSeconds", seconds, detail))
    return causes


def default_csi_node(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    spec.setdefault("drivers", None)
    for driver in spec["drivers"] or ():
        driver.setdefault("topologyKeys", None)


def canonicalize_csi_node(obj: Object, old: Object | None = None) -> None:
    # The writer of an empty list owns it; it is stored as null.
    obj["spec"]["drivers"] = obj["spec"]["drivers"] or None


def validate_csi_node(obj: Object, old: Object | None) -> list[Cause]:
    causes, seen = [], set()
    before = {driver.get("name"): driver for driver in (old or {}).get("spec", {}).get("drivers") or ()}
    for i, driver in enumerate(obj["spec"]["drivers"] or ()):
        path, name = f"spec.drivers[{i}]", driver.get("name") or ""
        causes += validate_csi_driver_name(name, f"{path}.name")
        node = driver.get("nodeID") or ""
        if not node:
            causes.append(required_value(f"{path}.nodeID"))
        elif len(node) > MAX_NODE_ID_LENGTH:
            causes.append(invalid_value(f"{path}.nodeID", node, f"must be {MAX_NODE_ID_LENGTH} characters or less"))
        causes += validate_nonnegative(driver.get("allocatable") or {}, f"{path}.allocatable", "count")
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
        keys = driver.get("topologyKeys") or []
        for k, key in enumerate(keys):
            causes += [] if key else [required_value(path)]
            causes += [duplicate(path, key)] if key in keys[:k] else []
            causes += invalid_causes(path, key, is_qualified_name(key))
        if name in before and _immutable_fields(driver) != _immutable_fields(before[name]):
            causes.append(invalid_value("spec.drivers", _immutable_fields(driver), "field is immutable"))
    return causes


def _immutable_fields(driver: Object) -> Object:
    return {key: value for key, value in driver.items() if key != "allocatable"}


def default_csi_storage_capacity(obj: Object) -> None:
    for field in ("capacity", "maximumVolumeSize"):
        if obj.get(field) is not None:
            obj[field] = exact_quantity(obj[field])


def warn_csi_storage_capacity(obj: Object, old: Object | None) -> list[str]:
    topology = obj.get("nodeTopology") or {}
    labels = [key for key in topology.get("matchLabels") or () if key in DEPRECATED_NODE_LABELS]
    return node_selector_term_warnings(topology, "nodeTopology") + [
        f"nodeTopology.matchLabels.{key}: {DEPRECATED_NODE_LABELS[key]}" for key in labels
    ]


def validate_csi_storage_capacity(obj: Object, old: Object | None) -> list[Cause]:
    name = obj.get("storageClassName") or ""
    causes = validate_label_selector(obj.get("nodeTopology"), "nodeTopology")
    causes += invalid_causes("storageClassName", name, is_dns1123_subdomain(name))
    if quantity_of(obj.get("capacity")) < ZERO:
        causes.append(invalid_value("capacity", obj["capacity"], NOT_NEGATIVE))
    if old is not None:
        causes += validate_immutable(obj, old, "", "nodeTopology", "storageClassName")
    return causes
