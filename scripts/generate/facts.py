"""What upstream's resource tables do not tell, read from its Go sources by hand.

Field selectors are the `AddFieldLabelConversionFunc` calls in pkg/apis/*/*/conversion.go; name rules are the
name functions given to `ValidateObjectMeta` in pkg/apis/*/validation/. Check both when the version moves.
"""

from __future__ import annotations

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

# Besides metadata.name and metadata.namespace, by `group/plural`.
SELECTABLE: dict[str, tuple[str, ...]] = {
    "/events": (*(f"involvedObject.{field}" for field in _INVOLVED), "reason", "reportingComponent", "source", "type"),
    "/namespaces": ("status.phase",),
    "/nodes": ("spec.unschedulable",),
    "/pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "/replicationcontrollers": ("status.replicas",),
    "/secrets": ("type",),
    "/services": ("spec.clusterIP", "spec.type"),
    "batch/jobs": ("status.successful",),
    "certificates.k8s.io/certificatesigningrequests": ("spec.signerName",),
    "certificates.k8s.io/clustertrustbundles": ("spec.signerName",),
    "certificates.k8s.io/podcertificaterequests": ("spec.signerName", "spec.podName", "spec.nodeName"),
    "events.k8s.io/events": ("reason", *(f"regarding.{field}" for field in _INVOLVED), "reportingController", "type"),
    "resource.k8s.io/resourceslices": ("spec.nodeName", "spec.driver"),
}

# A DNS subdomain unless named here.
NAME_RULES: dict[str, str] = {
    "/events": "path-segment",
    "/namespaces": "dns-label",
    "/services": "dns-label",
    "apiregistration.k8s.io/apiservices": "path-segment",
    "apps/statefulsets": "dns-label",
    "certificates.k8s.io/certificatesigningrequests": "path-segment",
    "certificates.k8s.io/clustertrustbundles": "cluster-trust-bundle",
    "coordination.k8s.io/leasecandidates": "config-map-key",
    "internal.apiserver.k8s.io/storageversions": "storage-version",
    "networking.k8s.io/ipaddresses": "ip",
    "rbac.authorization.k8s.io/clusterrolebindings": "path-segment",
    "rbac.authorization.k8s.io/clusterroles": "path-segment",
    "rbac.authorization.k8s.io/rolebindings": "path-segment",
    "rbac.authorization.k8s.io/roles": "path-segment",
}
