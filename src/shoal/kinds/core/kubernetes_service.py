"""`default/kubernetes`: the Service, Endpoints and EndpointSlice by which programs in a cluster find its API, and the
ServiceCIDR of its address.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.service.services import KUBERNETES_SERVICE_IP, SERVICE_CIDR

Object = dict[str, Any]

SERVICE_NAME = "kubernetes"
SERVICE_NAMESPACE = "default"


def api_server_names(host: str) -> tuple[str, ...]:
    """Returns the names and addresses by which programs reach the API of a cluster whose own address is at `host`."""
    service = f"{SERVICE_NAME}.{SERVICE_NAMESPACE}"
    in_cluster = (SERVICE_NAME, service, f"{service}.svc", f"{service}.svc.cluster.local", KUBERNETES_SERVICE_IP)
    return tuple(dict.fromkeys((host, *in_cluster, "localhost", "127.0.0.1")))


def kubernetes_service(port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata({"component": "apiserver", "provider": "kubernetes"}),
        "spec": {
            "clusterIP": KUBERNETES_SERVICE_IP,
            "clusterIPs": [KUBERNETES_SERVICE_IP],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    }


def kubernetes_endpoints(host: str, port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": _metadata({"endpointslice.kubernetes.io/skip-mirror": "true"}),
        "subsets": [{"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
    }


def kubernetes_endpoint_slice(host: str, port: int) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _metadata({"kubernetes.io/service-name": SERVICE_NAME}),
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


def default_service_cidr() -> Object:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": SERVICE_NAME, "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
        "spec": {"cidrs": [SERVICE_CIDR]},
        "status": {"conditions": [ready]},
    }


def _metadata(labels: dict[str, str]) -> Object:
    return {"name": SERVICE_NAME, "namespace": SERVICE_NAMESPACE, "labels": labels}
