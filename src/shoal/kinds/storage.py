"""The kinds of storage.k8s.io/v1: defaults, validation and immutable fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.kinds.checks import (
    NOT_NEGATIVE,
    Object,
    fill,
    immutable,
    label_selector,
    not_negative,
    one_of,
    said,
    section,
)
from shoal.kinds.pod_warnings import NODE_LABELS, node_term
from shoal.kinds.resources import amount, canonical_alone
from shoal.kinds.volume_sources import driver_name
from shoal.kinds.volumes import default_inline, validate_inline
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required, too_long
from shoal.objects.names import is_dns1123_subdomain, is_qualified_name
from shoal.objects.quantity import ZERO

MOST_PARAMETERS, PARAMETERS_BYTES = 512, 256 * 1024
METADATA_BYTES, MESSAGE_BYTES = 256 * 1024, 1024
NODE_ID_LENGTH = 256
IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
SIMULATED_CLASS, SIMULATED_PROVISIONER = "simulated", "shoal.dev/simulated"
SIMULATED_DRIVER = "simulated.shoal.dev"
_TOKENS_SHOWN = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def default_storage_class(obj: Object) -> None:
    fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def simulated_class() -> Object:
    """Returns the StorageClass every cluster starts with: its volumes exist only as objects."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": SIMULATED_CLASS, "annotations": {IS_DEFAULT[0]: "true"}},
        "provisioner": SIMULATED_PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def default_class(classes: Iterable[Object]) -> str:
    """Returns the name of the default StorageClass: the newest one marked as default, the first by name among
    equals.
    """
    marked = [one["metadata"] for one in classes if _is_default(one["metadata"].get("annotations") or {})]
    marked.sort(key=lambda metadata: metadata["name"])
    newest = max((metadata.get("creationTimestamp") or "" for metadata in marked), default="")
    return next((str(one["name"]) for one in marked if (one.get("creationTimestamp") or "") == newest), "")


def _is_default(annotations: dict[str, str]) -> bool:
    return any(annotations.get(key) == "true" for key in IS_DEFAULT)


def validate_storage_class(obj: Object, old: Object | None) -> list[Cause]:
    causes = _provisioner(obj.get("provisioner") or "", "provisioner")
    causes += _parameters(obj.get("parameters") or {})
    causes += one_of(obj["reclaimPolicy"] or None, "reclaimPolicy", "Delete", "Retain")
    causes += one_of(obj["volumeBindingMode"], "volumeBindingMode", "Immediate", "WaitForFirstConsumer")
    causes += _topologies(obj.get("allowedTopologies") or [])
    if old is not None:
        causes += immutable(obj, old, "", "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return causes


def _topologies(terms: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    # An empty term counts as a duplicate.
    before: list[dict[str, set[str]]] = [{}]
    for i, term in enumerate(terms):
        path, wanted = f"allowedTopologies[{i}].matchLabelExpressions", dict[str, set[str]]()
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            at, key, values = f"{path}[{j}]", expression.get("key") or "", expression.get("values") or []
            if not values:
                causes.append(required(f"{at}.values"))
            causes += [duplicate(f"{at}.values[{k}]", one) for k, one in enumerate(values) if one in values[:k]]
            causes += said(f"{at}.key", key, is_qualified_name(key))
            if key in wanted:
                causes.append(duplicate(f"{at}.key", key))
            wanted[key] = set(values)
        if wanted in before:
            causes.append(duplicate(path, ""))
        before.append(wanted)
    return causes


def warn_storage_class(obj: Object, old: Object | None) -> list[str]:
    return [
        f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {NODE_LABELS[expression['key']]}"
        for i, term in enumerate(obj.get("allowedTopologies") or ())
        for j, expression in enumerate(term.get("matchLabelExpressions") or ())
        if expression.get("key") in NODE_LABELS
    ]


def validate_attributes_class(obj: Object, old: Object | None) -> list[Cause]:
    causes = []
    if old is not None:
        for field in ("driverName", "parameters"):
            if obj.get(field) != old.get(field):
                causes.append(forbidden_field(field, f"updates to {field} are forbidden."))
    causes += _provisioner(obj.get("driverName") or "", "driverName") + _parameters(obj.get("parameters") or {})
    if not obj.get("parameters"):
        causes.append(required("parameters", "must contain at least one key/value pair"))
    return causes


def _provisioner(name: str, path: str) -> list[Cause]:
    return said(path, name.lower(), is_qualified_name(name.lower())) if name else [required(path)]


def _parameters(parameters: dict[str, str]) -> list[Cause]:
    if len(parameters) > MOST_PARAMETERS:
        return [too_long("parameters", MOST_PARAMETERS)]
    causes = [invalid_value("parameters", "", "field can not be empty.")] if "" in parameters else []
    if _size(parameters) > PARAMETERS_BYTES:
        causes.append(too_long("parameters", PARAMETERS_BYTES))
    return causes


def _size(texts: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())


def default_attachment(obj: Object) -> None:
    source = section(section(obj, "spec"), "source")
    if source.get("inlineVolumeSpec") is not None:
        default_inline(source["inlineVolumeSpec"])
    status = section(obj, "status")
    fill(status, attached=False)
    for error in (status.get("attachError"), status.get("detachError")):
        if error is not None:
            error.setdefault("time", None)


def validate_attachment(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = driver_name(spec.get("attacher") or "", "spec.attacher") + _source(spec["source"])
    node = spec.get("nodeName") or ""
    causes += said("spec.nodeName", node, is_dns1123_subdomain(node))
    status = obj.get("status") or {}
    if _size(status.get("attachmentMetadata") or {}) > METADATA_BYTES:
        causes.append(too_long("status.attachmentMetadata", METADATA_BYTES))
    for field in ("attachError", "detachError"):
        causes += _volume_error(status.get(field) or {}, f"status.{field}")
    volume = spec["source"].get("persistentVolumeName")
    if volume is not None:
        causes += said("spec.source.persistentVolumeName", volume, is_dns1123_subdomain(volume))
    if old is not None:
        causes += immutable(obj, old, "", "spec")
    return causes


def _source(source: Object) -> list[Cause]:
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and volume is None:
        return [required("spec.source", _ONE_SOURCE)]
    if inline is not None and volume is not None:
        return [forbidden_field("spec.source", _ONE_SOURCE)]
    if inline is not None:
        return validate_inline(inline, "spec.source.inlineVolumeSpec")
    path = "spec.source.persistentVolumeName"
    return [] if volume else [required(path, "must specify non empty persistentVolumeName")]


def _volume_error(error: Object, path: str) -> list[Cause]:
    causes = []
    if len((error.get("message") or "").encode()) > MESSAGE_BYTES:
        # Upstream reports this limit although it compares with the other.
        causes.append(too_long(f"{path}.message", METADATA_BYTES))
    if (error.get("errorCode") or 0) < 0:
        causes.append(
            invalid_value(f"{path}.errorCode", error["errorCode"], "must be between 0 and 2147483647, inclusive")
        )
    return causes


def default_driver(obj: Object) -> None:
    spec = section(obj, "spec")
    flags = dict.fromkeys(("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"), False)
    fill(spec, attachRequired=True, fsGroupPolicy="ReadWriteOnceWithFSType", **flags)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def create_driver(obj: Object) -> None:
    _drop_disabled(obj["spec"], {})


def update_driver(new: Object, old: Object) -> None:
    spec, before = new["spec"], old["spec"]
    _drop_disabled(spec, before)
    if spec != before:
        # The generation is counted from the first change on; a new object has none.
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _drop_disabled(spec: Object, before: Object) -> None:
    """Drops a field of a feature gate that is off by default."""
    if before.get("preventPodSchedulingIfMissing") is None:
        spec.pop("preventPodSchedulingIfMissing", None)


def validate_driver(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    policy = spec["fsGroupPolicy"]
    causes = one_of(policy, "spec.fsGroupPolicy", "File", "None", "ReadWriteOnceWithFSType")
    causes += _token_requests(spec.get("tokenRequests") or [])
    for mode in spec["volumeLifecycleModes"]:
        causes += one_of(mode, "spec.volumeLifecycleModes", "Persistent", "Ephemeral")
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        path = "spec.nodeAllocatableUpdatePeriodSeconds"
        causes.append(invalid_value(path, period, "must be greater than or equal to 10 seconds"))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        causes.append(invalid_value("spec.serviceAccountTokenInSecrets", in_secrets, why))
    if old is not None:
        if spec["attachRequired"] != old["spec"].get("attachRequired"):
            causes.append(invalid_value("spec.attachedRequired", spec["attachRequired"], "field is immutable"))
        causes += immutable(spec, old["spec"], "spec", "volumeLifecycleModes")
    return causes


def warn_driver(obj: Object, old: Object | None) -> list[str]:
    requests = obj["spec"].get("tokenRequests")
    if not requests or obj["spec"].get("serviceAccountTokenInSecrets") is not None:
        return []
    return [] if old is not None and requests == old["spec"].get("tokenRequests") else [_TOKENS_SHOWN]


def _token_requests(requests: list[Object]) -> list[Cause]:
    causes, seen = [], set()
    for i, request in enumerate(requests):
        path, audience = f"spec.tokenRequests[{i}]", request.get("audience", "")
        if audience in seen:
            causes.append(duplicate(f"{path}.audience", audience))
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            said_ = "may not specify a duration less than 10 minutes"
            causes.append(invalid_value(f"{path}.expirationSeconds", seconds, said_))
        if seconds is not None and seconds > 1 << 32:
            said_ = "may not specify a duration larger than 2^32 seconds"
            causes.append(invalid_value(f"{path}.expirationSeconds", seconds, said_))
    return causes


def default_node(obj: Object) -> None:
    spec = section(obj, "spec")
    spec.setdefault("drivers", None)
    for driver in spec["drivers"] or ():
        driver.setdefault("topologyKeys", None)


def keep_node(obj: Object, old: Object | None = None) -> None:
    # The writer of an empty list owns it; it is stored as null.
    obj["spec"]["drivers"] = obj["spec"]["drivers"] or None


def validate_node(obj: Object, old: Object | None) -> list[Cause]:
    causes, seen = [], set()
    before = {driver.get("name"): driver for driver in (old or {}).get("spec", {}).get("drivers") or ()}
    for i, driver in enumerate(obj["spec"]["drivers"] or ()):
        path, name = f"spec.drivers[{i}]", driver.get("name") or ""
        causes += driver_name(name, f"{path}.name")
        node = driver.get("nodeID") or ""
        if not node:
            causes.append(required(f"{path}.nodeID"))
        elif len(node) > NODE_ID_LENGTH:
            causes.append(invalid_value(f"{path}.nodeID", node, f"must be {NODE_ID_LENGTH} characters or less"))
        causes += not_negative(driver.get("allocatable") or {}, f"{path}.allocatable", "count")
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
        keys = driver.get("topologyKeys") or []
        for k, key in enumerate(keys):
            causes += [] if key else [required(path)]
            causes += [duplicate(path, key)] if key in keys[:k] else []
            causes += said(path, key, is_qualified_name(key))
        if name in before and _fixed_part(driver) != _fixed_part(before[name]):
            causes.append(invalid_value("spec.drivers", _fixed_part(driver), "field is immutable"))
    return causes


def _fixed_part(driver: Object) -> Object:
    return {key: value for key, value in driver.items() if key != "allocatable"}


def default_capacity(obj: Object) -> None:
    for field in ("capacity", "maximumVolumeSize"):
        if obj.get(field) is not None:
            obj[field] = canonical_alone(obj[field])


def warn_capacity(obj: Object, old: Object | None) -> list[str]:
    topology = obj.get("nodeTopology") or {}
    labels = [key for key in topology.get("matchLabels") or () if key in NODE_LABELS]
    return node_term(topology, "nodeTopology") + [
        f"nodeTopology.matchLabels.{key}: {NODE_LABELS[key]}" for key in labels
    ]


def validate_capacity(obj: Object, old: Object | None) -> list[Cause]:
    name = obj.get("storageClassName") or ""
    causes = label_selector(obj.get("nodeTopology"), "nodeTopology")
    causes += said("storageClassName", name, is_dns1123_subdomain(name))
    if amount(obj.get("capacity")) < ZERO:
        causes.append(invalid_value("capacity", obj["capacity"], NOT_NEGATIVE))
    if old is not None:
        causes += immutable(obj, old, "", "nodeTopology", "storageClassName")
    return causes
