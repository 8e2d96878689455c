"""One small object of every built-in kind, as a user would write it, by `plural.group` (`plural.version.group`)."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Object = dict[str, Any]

LABELS = {"app": "web"}
POD: Object = {"containers": [{"name": "main", "image": "nginx"}]}
TEMPLATE: Object = {"metadata": {"labels": LABELS}, "spec": POD}
ONCE: Object = {"spec": {**POD, "restartPolicy": "Never"}}
SELECTED: Object = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
RULE: Object = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
TARGET: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
EVENT_OBJECT: Object = {"kind": "Pod", "namespace": "default", "name": "p"}


@cache
def signing_request(organization: str = "", name: str = "somebody") -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    parts += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts)).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def webhook(**more: object) -> Object:
    config = {"service": {"name": "hook", "namespace": "default"}}
    need = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": config, "rules": [RULE]}
    return {"name": "a.example.com", **need, **more}


_REGISTRATION = "admissionregistration.k8s.io"
_ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}


def samples() -> dict[str, Object]:
    """Fresh each time: tests change them."""
    match = {"matchConstraints": {"resourceRules": [RULE]}}
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{op: "remove", path: "/spec"}]'}}
    claim = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
    reporting = {"reportingController": "example.com/c", "reportingInstance": "c-1", "action": "Make"}
    said = {"reason": "Made", "type": "Normal", "eventTime": "2024-01-02T03:04:05.000000Z", **reporting}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    request = {"request": signing_request(), "signerName": "example.com/signer", "usages": ["client auth"]}
    return {
        "configmaps": {"data": {"a": "b"}},
        "endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
        "events": {"involvedObject": EVENT_OBJECT, "reason": "Made", "type": "Normal"},
        "limitranges": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
        "namespaces": {},
        "nodes": {},
        "persistentvolumeclaims": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        },
        "persistentvolumes": {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/data"},
            }
        },
        "pods": {"spec": POD},
        "podtemplates": {"template": TEMPLATE},
        "replicationcontrollers": {"spec": {"selector": LABELS, "template": TEMPLATE}},
        "resourcequotas": {"spec": {"hard": {"secrets": "100"}}},
        "secrets": {"stringData": {"a": "b"}},
        "serviceaccounts": {},
        "services": {"spec": {"selector": LABELS, "ports": [{"port": 80}]}},
        "apiservices.apiregistration.k8s.io": {
            "spec": {"group": "example.net", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        },
        "controllerrevisions.apps": {"data": {"spec": {}}, "revision": 1},
        "daemonsets.apps": {"spec": SELECTED},
        "deployments.apps": {"spec": SELECTED},
        "replicasets.apps": {"spec": SELECTED},
        "statefulsets.apps": {"spec": {**SELECTED, "serviceName": "web"}},
        "events.events.k8s.io": {"regarding": EVENT_OBJECT, **said},
        "cronjobs.batch": {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": ONCE}}}},
        "jobs.batch": {"spec": {"template": ONCE}},
        "certificatesigningrequests.certificates.k8s.io": {"spec": request},
        "ingressclasses.networking.k8s.io": {"spec": {"controller": "example.com/ingress"}},
        "ingresses.networking.k8s.io": {"spec": {"defaultBackend": backend}},
        "ipaddresses.networking.k8s.io": {"spec": {"parentRef": {"resource": "services", "name": "web"}}},
        "networkpolicies.networking.k8s.io": {"spec": {"podSelector": {"matchLabels": LABELS}}},
        "servicecidrs.networking.k8s.io": {"spec": {"cidrs": ["10.20.0.0/16"]}},
        "poddisruptionbudgets.policy": {"spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}},
        "clusterrolebindings.rbac.authorization.k8s.io": {"roleRef": _ROLE_REF},
        "clusterroles.rbac.authorization.k8s.io": {"rules": []},
        "rolebindings.rbac.authorization.k8s.io": {"roleRef": _ROLE_REF},
        "roles.rbac.authorization.k8s.io": {"rules": []},
        "csidrivers.storage.k8s.io": {"spec": {}},
        "csinodes.storage.k8s.io": {"spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n"}]}},
        "csistoragecapacities.storage.k8s.io": {"storageClassName": "fast", "capacity": "1Gi"},
        "storageclasses.storage.k8s.io": {"provisioner": "csi.example.com"},
        "volumeattachments.storage.k8s.io": {
            "spec": {"attacher": "csi.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        },
        "volumeattributesclasses.storage.k8s.io": {"driverName": "csi.example.com", "parameters": {"iops": "10"}},
        f"mutatingadmissionpolicies.{_REGISTRATION}": {
            "spec": {**match, "reinvocationPolicy": "Never", "mutations": [mutation]}
        },
        f"mutatingadmissionpolicybindings.{_REGISTRATION}": {"spec": {"policyName": "p"}},
        f"mutatingwebhookconfigurations.{_REGISTRATION}": {"webhooks": [webhook()]},
        f"validatingadmissionpolicies.{_REGISTRATION}": {"spec": {**match, "validations": [{"expression": "true"}]}},
        f"validatingadmissionpolicybindings.{_REGISTRATION}": {
            "spec": {"policyName": "p", "validationActions": ["Deny"]}
        },
        f"validatingwebhookconfigurations.{_REGISTRATION}": {"webhooks": [webhook()]},
        "priorityclasses.scheduling.k8s.io": {"value": 1000},
        "leases.coordination.k8s.io": {"spec": {"holderIdentity": "me"}},
        "runtimeclasses.node.k8s.io": {"handler": "runc"},
        "endpointslices.discovery.k8s.io": {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.2.3"]}],
            "ports": [{"port": 80}],
        },
        "deviceclasses.resource.k8s.io": {"spec": {}},
        "resourceclaims.resource.k8s.io": {"spec": claim},
        "resourceclaimtemplates.resource.k8s.io": {"spec": {"spec": claim}},
        "resourceslices.resource.k8s.io": {
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            }
        },
        "flowschemas.flowcontrol.apiserver.k8s.io": {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": {
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
        },
    }
