"""Warnings about valid objects, sent with the response."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from shoal.kinds.core.pod_warnings import pod_warnings, template_warner
from shoal.kinds.core.secret_warnings import TLS_SECRET_TYPE, warn_secret
from shoal.kinds.core.service.services import service_warnings
from shoal.kinds.core.serviceaccount import ENFORCE_MOUNTABLE_SECRETS, prune_secret_references, warn_service_account
from shoal.kinds.validation.ip import cidr_warnings, ip_warnings

Object = dict[str, Any]


def pod(container: Object | None = None, annotations: Object | None = None, **spec: object) -> Object:
    metadata = {"name": "a", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", **(container or {})}], **spec}}


SECOND_PORT = "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"
HIDDEN = 'spec.containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply'
FRACTION = 'spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer'
OVERLAP = 'volume "v" (ConfigMap "c"): overlapping paths: "a/b" with "a"'
OUT_OF_USE = "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"
LABEL = 'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'
SPREAD = "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/main"
PROFILE = f'metadata.annotations[{APPARMOR}]: deprecated since v1.30; use the "appArmorProfile" field instead'
VARIABLES = [{"name": "A", "value": value} for value in ("1", "$(A)2", "3")]


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (pod(), []),
        (pod({"ports": [{"containerPort": 80, "protocol": "TCP"}] * 2}), [SECOND_PORT]),
        (pod({"env": VARIABLES}), [HIDDEN]),
        (pod({"resources": {"limits": {"memory": "1500m"}}}), [FRACTION]),
        (
            pod(volumes=[{"name": "v", "projected": {"sources": [{}]}}]),
            ['volume "v" (Projected) has no sources provided'],
        ),
        (
            pod(volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"path": "a"}, {"path": "a/b"}]}}]),
            [OVERLAP],
        ),
        (pod(volumes=[{"name": "v", "rbd": {}}]), [OUT_OF_USE]),
        (pod(nodeSelector={"beta.kubernetes.io/os": "linux"}), [LABEL]),
        (pod(topologySpreadConstraints=[{"topologyKey": "zone"}]), [SPREAD]),
        (pod(annotations={APPARMOR: "unconfined"}), [PROFILE]),
    ],
)
def test_odd_pods(obj: Object, told: list[str]) -> None:
    assert pod_warnings(obj, None) == told
    assert pod_warnings(obj, obj) == []


def test_a_name_that_is_no_host_name() -> None:
    [told] = pod_warnings({**pod(), "metadata": {"name": "a.b"}}, None)
    assert told.endswith("a DNS label is recommended: [must not contain dots]")


def test_templates_are_told_of_when_they_change() -> None:
    warn = template_warner("spec", "template")
    obj = {"metadata": {"generation": 1}, "spec": {"template": pod(imagePullSecrets=[{}])}}
    told = ['spec.template.spec.imagePullSecrets[0].name: invalid empty name ""']
    assert warn(obj, None) == told
    assert warn(obj, obj) == []
    assert warn({**obj, "metadata": {"generation": 2}}, obj) == told


def test_odd_services() -> None:
    def told(**spec: object) -> list[str]:
        filled = {"type": "ClusterIP", "sessionAffinity": "None", **spec}
        return service_warnings({"metadata": {}, "spec": filled}, None)

    assert told(clusterIP="10.0.0.9", clusterIPs=["10.0.0.9"]) == []
    assert told(externalName="a.b") == ['spec.externalName is ignored when spec.type is not "ExternalName"']
    assert told(clusterIP="None", sessionAffinity="ClientIP") == [
        "spec.SessionAffinity is ignored for headless services"
    ]
    assert told(externalIPs=["1.2.3.4"]) == [
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    ]


def test_addresses_in_other_forms() -> None:
    assert ip_warnings("a", "10.0.0.1") == ip_warnings("a", "2001:db8::1") == []
    assert ip_warnings("a", "2001:DB8::1") == [
        'a: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")'
    ]
    assert cidr_warnings("a", "10.1.2.3/8") == [
        'a: CIDR value "10.1.2.3/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.1.2.3/32"?)'
    ]


def test_a_certificate_that_is_none() -> None:
    def told(certificate: str, key: str) -> list[str]:
        encoded = (base64.b64encode(text.encode()).decode() for text in (certificate, key))
        return warn_secret(
            {"type": TLS_SECRET_TYPE, "data": dict(zip(("tls.crt", "tls.key"), encoded, strict=True))}, None
        )

    key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    certificate = key.replace("PRIVATE KEY", "CERTIFICATE")
    assert told("x", "x") == ["tls: failed to find any PEM data in certificate input"]
    assert "PEM inputs may have been switched" in told(key, certificate)[0]
    assert told(certificate, "x") == ["tls: failed to find any PEM data in key input"]
    assert told(certificate, key) == ["x509: malformed certificate"]
    assert warn_secret({"type": "Opaque"}, None) == []


def test_accounts() -> None:
    account: Object = {
        "metadata": {"annotations": {ENFORCE_MOUNTABLE_SECRETS: "true"}},
        "secrets": [{"name": "a", "uid": "1"}, {"kind": "x"}],
    }
    assert warn_service_account(account, None)
    assert warn_service_account(account, account) == []
    prune_secret_references(account)
    assert account["secrets"] == [{"name": "a"}, {}]
