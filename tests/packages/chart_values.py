"""Values of the chart that are wrong, each with the place that its refusal names."""

from __future__ import annotations

from typing import Any

from tests.packages.manifests import Object

SYNCER, PROVISIONER = {"enabled": True, "cluster": "far"}, {"enabled": True, "cluster": "default/east"}


def worker(**values: Any) -> Object:
    return {"workers": [{"name": "far", **values}]}


def hub(**values: Any) -> Object:
    return {"hub": values}


WRONG: dict[str, tuple[Object, str, str]] = {
    # name: values, the place, a word of the refusal
    "a key": ({"hubs": {}}, "", "hubs"),
    "a key of the hub": (hub(replica=3), "/hub", "replica"),
    "a key of a worker": (worker(secret="far"), "/workers/0", "secret"),
    "a key of the image": ({"image": {"repo": "a/b"}}, "/image", "repo"),
    "a key of etcd": (hub(etcd={"endpoint": []}), "/hub/etcd", "endpoint"),
    "a key of the service": (hub(service={"ports": 1}), "/hub/service", "ports"),
    "a key of resources": (hub(resources={"limit": {}}), "/hub/resources", "limit"),
    "a key of a toleration": ({"tolerations": [{"keys": "a"}]}, "/tolerations/0", "keys"),
    "a key of a peer": (hub(allowFrom=[{"ipblock": {}}]), "/hub/allowFrom/0", "ipblock"),
    "a key of a selector": (
        hub(allowFrom=[{"podSelector": {"labels": {}}}]),
        "/hub/allowFrom/0/podSelector",
        "labels",
    ),
    "no replica": (hub(replicas=0), "/hub/replicas", "1"),
    "replicas as text": (hub(replicas="3"), "/hub/replicas", "integer"),
    "an address with a scheme": (
        hub(advertiseAddress="https://hub.example.com"),
        "/hub/advertiseAddress",
        "pattern",
    ),
    "an address with a port": (hub(advertiseAddress="hub.example.com:6443"), "/hub/advertiseAddress", "pattern"),
    "a name with a port": (hub(tlsSANs=["hub.example.com:6443"]), "/hub/tlsSANs/0", "pattern"),
    "an endpoint without a scheme": (hub(etcd={"endpoints": ["etcd:2379"]}), "/hub/etcd/endpoints/0", "pattern"),
    "an endpoint alone": (hub(etcd={"endpoints": "https://etcd:2379"}), "/hub/etcd/endpoints", "array"),
    "a prefix": (hub(etcd={"prefix": "shoal"}), "/hub/etcd/prefix", "pattern"),
    "a type of Service": (hub(service={"type": "Loadbalancer"}), "/hub/service/type", "LoadBalancer"),
    "a port": (hub(service={"port": 65536}), "/hub/service/port", "maximum"),
    "a network": (
        hub(service={"loadBalancerSourceRanges": ["10.0.0.0"]}),
        "/hub/service/loadBalancerSourceRanges/0",
        "",
    ),
    "an annotation": (hub(service={"annotations": {"a": True}}), "/hub/service/annotations/a", "string"),
    "a profile": (hub(rootProfile="none"), "/hub/rootProfile", "cluster"),
    "a size": (hub(persistence={"size": "ten"}), "/hub/persistence/size", "pattern"),
    "a size without a unit": (hub(persistence={"size": 10}), "/hub/persistence/size", "string"),
    "a class of storage": (hub(persistence={"storageClass": "Fast"}), "/hub/persistence/storageClass", "pattern"),
    "a bus": (hub(bus="kafka://broker"), "/hub/bus", "pattern"),
    "a mode": (hub(syncMode="both"), "/hub/syncMode", "push"),
    "a switch": (hub(audit={"enabled": "yes"}), "/hub/audit/enabled", "boolean"),
    "kinds to encrypt": (hub(encryption={"kinds": "Secrets"}), "/hub/encryption/kinds", "pattern"),
    "a key's Secret": (hub(encryption={"keySecret": "my keys"}), "/hub/encryption/keySecret", "pattern"),
    "arguments as text": (hub(extraArgs="--idle-seconds 60"), "/hub/extraArgs", "array"),
    "an argument that is a number": (hub(extraArgs=["--idle-seconds", 60]), "/hub/extraArgs/1", "string"),
    "a quantity": (hub(resources={"requests": {"memory": "1 Gi"}}), "/hub/resources/requests/memory", "pattern"),
    "a budget": (hub(disruptionBudget={"maxUnavailable": "half"}), "/hub/disruptionBudget/maxUnavailable", "pattern"),
    "an interval": (hub(serviceMonitor={"interval": "30"}), "/hub/serviceMonitor/interval", "pattern"),
    "a peer of nothing": (hub(allowFrom=[{}]), "/hub/allowFrom/0", "1"),
    "a network of a peer": (
        hub(allowFrom=[{"ipBlock": {"cidr": "everywhere"}}]),
        "/hub/allowFrom/0/ipBlock/cidr",
        "pattern",
    ),
    "an operator": (
        hub(allowFrom=[{"podSelector": {"matchExpressions": [{"key": "a", "operator": "in"}]}}]),
        "/hub/allowFrom/0/podSelector/matchExpressions/0/operator",
        "NotIn",
    ),
    "a label": ({"commonLabels": {"team": "the fleet"}}, "/commonLabels/team", "pattern"),
    "the name of a label": ({"commonLabels": {"the team": "fleet"}}, "/commonLabels", "the team"),
    "a selector of nodes": ({"nodeSelector": {"ssd": True}}, "/nodeSelector/ssd", "string"),
    "an effect": ({"tolerations": [{"effect": "noschedule"}]}, "/tolerations/0/effect", "NoSchedule"),
    "a policy": ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy", "Always"),
    "a tag with a digest": ({"image": {"tag": "1@sha256:0"}}, "/image/tag", "pattern"),
    "no repository": ({"image": {"repository": ""}}, "/image/repository", "pattern"),
    "a pull secret": ({"image": {"pullSecrets": [{"name": "pull"}]}}, "/image/pullSecrets/0", "string"),
    "a switch of the policy": ({"networkPolicy": False}, "/networkPolicy", "object"),
    "a worker without a name": ({"workers": [{"hubSecret": "far"}]}, "/workers/0", "name"),
    "a worker's name": ({"workers": [{"name": "Far"}]}, "/workers/0/name", "pattern"),
    "workers as a map": ({"workers": {"far": {}}}, "/workers", "array"),
    "a capacity": (worker(capacity=-1), "/workers/0/capacity", "0"),
    "a capacity as text": (worker(capacity="20"), "/workers/0/capacity", "integer"),
    "a worker's memory": (worker(resources={"limits": {"memory": "much"}}), "/workers/0/resources/limits/memory", ""),
    "a worker of no hub": (worker() | hub(enabled=False), "/workers/0", "hubSecret"),
    "a worker of no named hub": (worker(hubSecret="") | hub(enabled=False), "/workers/0/hubSecret", "1"),
    "a syncer of nothing": ({"syncer": {"enabled": True}}, "/syncer/cluster", "pattern"),
    "nothing to sync": ({"syncer": {**SYNCER, "resources": []}}, "/syncer/resources", "1"),
    "a kind to sync": ({"syncer": {**SYNCER, "resources": ["Deployment"]}}, "/syncer/resources/0", "pattern"),
    "the limits of the syncer": ({"syncer": {**SYNCER, "limits": {"memory": "512 MB"}}}, "/syncer/limits/memory", ""),
    "a provisioner of nothing": ({"provisioner": {"enabled": True}}, "/provisioner/cluster", "pattern"),
    "a provisioner without a namespace": (
        {"provisioner": {**PROVISIONER, "cluster": "east"}},
        "/provisioner/cluster",
        "pattern",
    ),
    "a planner": ({"provisioner": {**PROVISIONER, "planner": "cheapest"}}, "/provisioner/planner", "karpenter"),
    "provisioners": ({"provisioner": {**PROVISIONER, "replicas": 0}}, "/provisioner/replicas", "1"),
    "a time": ({"test": {"timeout": "soon"}}, "/test/timeout", "pattern"),
}
