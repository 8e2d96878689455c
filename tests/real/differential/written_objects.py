"""Built-in kinds with ways of their own: pods, services, namespaces, secrets, quotas, volumes, workloads."""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.apiserver.kind_samples import ONCE, POD, SELECTED, TEMPLATE
from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import MERGE, NAMESPACE
from tests.serving import config_map

CORE = f"/api/v1/namespaces/{NAMESPACE}"
PODS, SERVICES, SECRETS, MAPS = (f"{CORE}/{name}" for name in ("pods", "services", "secrets", "configmaps"))


def pod(name: str, **spec: object) -> Object:
    quiet = {"automountServiceAccountToken": False, **POD, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": quiet}


def service(name: str, **spec: object) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def stories() -> Iterator[Story]:
    for number, spec in enumerate(_pod_specs()):
        yield Story(f"pods: spec {number}", (Ask("POST", f"{PODS}?dryRun=All", pod("checked", **spec)),))
    yield Story("pods: changes", tuple(_pod_changes()))
    yield Story("pods: subresources", tuple(_pod_subresources()))
    for number, spec in enumerate(_service_specs()):
        yield Story(f"services: spec {number}", (Ask("POST", f"{SERVICES}?dryRun=All", service("checked", **spec)),))
    yield Story("services: life", tuple(_service_life()))
    yield Story("namespaces", tuple(_namespaces()))
    yield Story("secrets", tuple(_secrets()))
    yield Story("immutable", tuple(_immutable()))
    yield Story("names", tuple(_names()))
    for number, (path, body) in enumerate(_others()):
        yield Story(f"objects: {number} {body['kind']}", (Ask("POST", f"{path}?dryRun=All", body),))
    yield Story("nodes", tuple(_nodes()))


def _container(**more: object) -> Object:
    return {"containers": [{"name": "main", "image": "nginx", **more}]}


def _pod_specs() -> Iterator[Object]:
    probe = {"httpGet": {"port": 80}}
    yield from ({}, {"containers": []}, {"containers": None}, {"restartPolicy": "Sometimes"}, {"dnsPolicy": "No"})
    yield from (_container(image=""), _container(name=""), _container(name="A_B"), _container(imagePullPolicy="x"))
    yield from (_container(ports=[{}]), _container(ports=[{"containerPort": 70000}]), _container(ports=[{"containerPort": 80, "name": "a--b"}]))  # fmt: skip
    yield from (
        _container(ports=[{"containerPort": 80, "protocol": "X"}]),
        _container(ports=[{"containerPort": 80}] * 2),
    )
    yield _container(ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}])
    yield from (_container(env=[{}]), _container(env=[{"name": "A", "value": "1", "valueFrom": {}}]))
    yield from (_container(env=[{"name": "A", "value": "1"}] * 2), _container(env=[{"name": "a b", "value": "1"}]))
    yield _container(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.no"}, "secretKeyRef": {"key": ""}}}]
    )
    yield _container(envFrom=[{"prefix": "1"}, {"configMapRef": {"name": ""}, "secretRef": {"name": "b"}}])
    yield from (_container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}), _container(resources={"limits": {"x": 1}}))  # fmt: skip
    yield from (_container(resources={"limits": {"cpu": "-1"}}), _container(resources={"requests": {"memory": "x"}}))
    yield from (_container(livenessProbe={}), _container(livenessProbe=probe), _container(livenessProbe={**probe, "successThreshold": 2}))  # fmt: skip
    yield from (
        _container(readinessProbe={**probe, "tcpSocket": {"port": 1}}),
        _container(startupProbe={"grpc": {"port": 0}}),
    )
    yield from (_container(lifecycle={"preStop": {}}), _container(lifecycle={"postStart": {"exec": {}}}))
    yield from (_container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), _container(volumeMounts=[{"name": "", "mountPath": ""}]))  # fmt: skip
    yield from (_container(securityContext={"privileged": True}), _container(securityContext={"runAsUser": -1}))
    yield from (_container(terminationMessagePolicy="x"), _container(workingDir="a:b"), _container(stdin="x"))
    yield from ({"volumes": [{"name": "v"}]}, {"volumes": [{"name": "v"}, {"name": "v"}]}, {"volumes": [{"name": "A"}]})
    yield from ({"volumes": [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]}, {"volumes": [{"name": "v", "secret": {}}]})  # fmt: skip
    yield from ({"volumes": [{"name": "v", "hostPath": {"path": "", "type": "x"}}]}, {"volumes": [{"name": "v", "configMap": {}}]})  # fmt: skip
    yield from ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]}, {"volumes": [{"name": "v", "nfs": {}}]})  # fmt: skip
    yield from ({"volumes": [{"name": "v", "projected": {"sources": [{}]}}]}, {"volumes": [{"name": "v", "csi": {}}]})
    yield from ({"nodeSelector": {"a b": "c"}}, {"nodeName": "Not A Node"}, {"hostname": "a.b"}, {"subdomain": "A"})
    yield from ({"tolerations": [{"operator": "In"}]}, {"tolerations": [{"effect": "x", "key": ""}]})
    yield from ({"tolerations": [{"key": "a", "tolerationSeconds": 5, "effect": "NoSchedule"}]}, {"priority": 7})
    yield from ({"priorityClassName": "none"}, {"runtimeClassName": "none"}, {"schedulerName": "a b"})
    yield from ({"serviceAccountName": "nobody"}, {"activeDeadlineSeconds": 0}, {"terminationGracePeriodSeconds": -5})
    yield from ({"initContainers": [{"name": "main", "image": "x"}]}, {"initContainers": [{"name": "i", "image": "x", "readinessProbe": probe}]})  # fmt: skip
    yield from ({"initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}]}, {"ephemeralContainers": [{"name": "e", "image": "x"}]})  # fmt: skip
    yield from ({"hostNetwork": True, **_container(ports=[{"containerPort": 80, "hostPort": 81}])}, {"hostPID": True, "shareProcessNamespace": True})  # fmt: skip
    yield from ({"securityContext": {"sysctls": [{"name": "a b", "value": "1"}], "fsGroup": -1}}, {"securityContext": {"seccompProfile": {"type": "x"}}})  # fmt: skip
    yield from ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}, {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}})  # fmt: skip
    yield {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "podAffinityTerm": {"topologyKey": "a b"}}]}}}  # fmt: skip
    yield {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x"}]}
    yield {"readinessGates": [{"conditionType": "a b"}], "imagePullSecrets": [{"name": ""}], "overhead": {"cpu": "1"}}
    yield {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["x"], "searches": ["A b"]}}
    yield {"hostAliases": [{"ip": "x", "hostnames": ["A b"]}], "preemptionPolicy": "Never", "os": {"name": "x"}}
    yield {"schedulingGates": [{"name": "a"}, {"name": "a"}], "nodeName": "n"}


def _pod_changes() -> Iterator[Ask]:
    path = f"{PODS}/changing"
    yield Ask("POST", PODS, pod("changing", tolerations=[{"key": "a", "operator": "Exists"}]))
    spec: Object
    for spec in (
        {"nodeName": "n"}, {"containers": [{"name": "main", "image": "other"}]}, {"containers": [{"name": "x", "image": "y"}]},
        {"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 9}, {"activeDeadlineSeconds": None}, {"tolerations": []},
        {"restartPolicy": "Never"}, {"hostNetwork": True}, {"terminationGracePeriodSeconds": 1}, {"nodeSelector": {"a": "b"}},
    ):  # fmt: skip
        yield Ask("PATCH", path, {"spec": spec}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"status": {"phase": "Running"}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/status", {"status": {"phase": "Odd", "podIP": "x"}}, {"Content-Type": MERGE})
    yield Ask("DELETE", f"{path}?gracePeriodSeconds=0")


def _pod_subresources() -> Iterator[Ask]:
    path = f"{PODS}/parts"
    yield Ask("POST", PODS, pod("parts"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "parts"},
        "target": {"kind": "Node", "name": "n"},
    }
    yield Ask("POST", f"{path}/binding", {**binding, "target": {"kind": "Pod", "name": "n"}})
    yield Ask("POST", f"{path}/binding", {**binding, "target": {}})
    yield Ask("POST", f"{path}/binding", {**binding, "metadata": {"name": "other"}})
    yield Ask("POST", f"{path}/binding", binding)
    yield Ask("POST", f"{path}/binding", binding)
    yield Ask("GET", path)
    debug = {"name": "debug", "image": "x"}
    extra = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "parts"}, "spec": {"ephemeralContainers": [debug]}}
    yield Ask("PATCH", f"{path}/ephemeralcontainers", extra, {"Content-Type": "application/strategic-merge-patch+json"})
    yield Ask("PATCH", f"{path}/ephemeralcontainers", {"spec": {"ephemeralContainers": [{**debug, "image": "y"}]}}, {"Content-Type": MERGE})  # fmt: skip
    yield Ask("GET", f"{path}/ephemeralcontainers")
    resized = {"spec": {"containers": [{"name": "main", "image": "nginx", "resources": {"limits": {"cpu": "1"}}}]}}
    yield Ask("PATCH", f"{path}/resize", resized, {"Content-Type": "application/strategic-merge-patch+json"})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "parts"}}
    yield Ask("POST", f"{path}/eviction?dryRun=All", eviction)
    yield Ask("POST", f"{path}/eviction", {**eviction, "metadata": {"name": "other"}})
    yield Ask("POST", f"{path}/eviction", {**eviction, "apiVersion": "policy/v1beta9"})
    yield Ask("POST", f"{path}/eviction", {**eviction, "deleteOptions": {"preconditions": {"uid": "x"}}})
    yield Ask("POST", f"{PODS}/nobody/eviction", {**eviction, "metadata": {"name": "nobody"}})
    yield Ask("POST", f"{path}/eviction", {**eviction, "deleteOptions": {"gracePeriodSeconds": 0}})
    yield Ask("GET", path)


def _service_specs() -> Iterator[Object]:
    ports = {"ports": [{"port": 80}]}
    yield from ({}, ports, {"ports": []}, {"ports": [{"port": 0}]}, {"ports": [{"port": 80}, {"port": 81}]})
    yield from (
        {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
        {"ports": [{"port": 80, "name": "A"}]},
    )
    yield from ({"ports": [{"port": 80, "targetPort": "x_y"}]}, {"ports": [{"port": 80, "protocol": "ICMP"}]})
    yield from ({"ports": [{"port": 80, "nodePort": 30123}]}, {**ports, "type": "NodePort"}, {**ports, "type": "Odd"})
    yield from ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]}, {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]})  # fmt: skip
    yield from ({"type": "ExternalName"}, {"type": "ExternalName", "externalName": "example.com"}, {"type": "ExternalName", "externalName": "A b", **ports})  # fmt: skip
    yield from ({**ports, "clusterIP": "None"}, {**ports, "clusterIP": "x"}, {**ports, "clusterIP": "192.168.0.1"})
    yield from ({**ports, "type": "NodePort", "clusterIP": "None"}, {**ports, "clusterIPs": ["None", "x"]})
    yield from ({**ports, "type": "LoadBalancer"}, {**ports, "type": "LoadBalancer", "loadBalancerIP": "x", "loadBalancerSourceRanges": ["y"]})  # fmt: skip
    yield from ({**ports, "type": "LoadBalancer", "externalTrafficPolicy": "Local"}, {**ports, "externalTrafficPolicy": "Local"})  # fmt: skip
    yield from ({**ports, "sessionAffinity": "ClientIP"}, {**ports, "sessionAffinity": "x"}, {**ports, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}})  # fmt: skip
    yield {**ports, "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 90000}}}
    yield from ({**ports, "selector": {"a b": "c"}}, {**ports, "externalIPs": ["x", "127.0.0.1"]})
    yield from ({**ports, "ipFamilies": ["IPv6"]}, {**ports, "ipFamilyPolicy": "RequireDualStack"}, {**ports, "ipFamilyPolicy": "x"})  # fmt: skip
    yield from ({**ports, "internalTrafficPolicy": "x"}, {**ports, "trafficDistribution": "x"}, {**ports, "publishNotReadyAddresses": True})  # fmt: skip
    yield from ({**ports, "allocateLoadBalancerNodePorts": True}, {**ports, "loadBalancerClass": "a"}, {**ports, "healthCheckNodePort": 1})  # fmt: skip


def _service_life() -> Iterator[Ask]:
    path, ports = f"{SERVICES}/life", {"ports": [{"port": 80}]}
    yield Ask("POST", SERVICES, service("life", **ports, clusterIP="10.0.7.7"))
    yield Ask("POST", SERVICES, service("second", **ports, clusterIP="10.0.7.7"))
    for spec in (
        {"clusterIP": "10.0.7.8"}, {"clusterIP": "None"}, {"clusterIP": ""}, {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]},
        {"ports": [{"port": 81}]}, {"type": "ClusterIP"}, {"type": "ExternalName", "externalName": "a.b"}, {"type": "ClusterIP"},
        {"selector": {"app": "x"}}, {"ipFamilies": ["IPv6"]},
    ):  # fmt: skip
        # kube-apiserver patches what its watch cache has, which may be older than the last answer. When that write
        # fails, the node port stays allocated, and the second try finds it in use. This get waits for the cache.
        yield Ask("GET", f"{path}?resourceVersion=@rv@")
        yield Ask("PATCH", path, {"spec": spec}, {"Content-Type": MERGE})
    yield Ask(
        "PATCH",
        f"{path}/status",
        {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},
        {"Content-Type": MERGE},
    )
    yield Ask("PUT", path, service("life", **ports))
    yield Ask("DELETE", path)
    yield Ask("DELETE", f"{SERVICES}/second")


def _namespaces() -> Iterator[Ask]:
    def namespace(name: str, **more: object) -> Object:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, **more}

    path = "/api/v1/namespaces/passing"
    yield Ask("POST", "/api/v1/namespaces", namespace("passing"))
    yield Ask("POST", f"{path}/configmaps", config_map("left"))
    yield Ask("DELETE", path)
    yield Ask("POST", f"{path}/configmaps", config_map("late"))
    yield Ask("DELETE", path)
    yield Ask("GET", path)
    yield Ask("PUT", f"{path}/finalize", namespace("passing", spec={"finalizers": []}))
    yield Ask("GET", path)
    yield Ask("POST", f"{path}/configmaps", config_map("later"), until=404)
    yield Ask("POST", "/api/v1/namespaces", namespace("a.b"))
    yield Ask("POST", "/api/v1/namespaces", namespace("x" * 64))
    yield Ask("POST", "/api/v1/namespaces?dryRun=All", namespace("odd", spec={"finalizers": ["x", "Bad One"]}))
    yield Ask("DELETE", "/api/v1/namespaces/default")
    yield Ask("DELETE", "/api/v1/namespaces/kube-system")
    yield Ask("DELETE", "/api/v1/namespaces")
    yield Ask("PATCH", "/api/v1/namespaces/default/status", {"status": {"phase": "Odd"}}, {"Content-Type": MERGE})


def _secrets() -> Iterator[Ask]:
    more: Any
    for number, more in enumerate(
        (
            {"data": {"a": "eA=="}}, {"data": {"a": "no base64"}}, {"data": {"a b": "eA=="}}, {"stringData": {"a": "x"}, "data": {"a": "eQ=="}},
            {"type": "kubernetes.io/tls"}, {"type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": "eA=="}},
            {"type": "kubernetes.io/basic-auth"}, {"type": "kubernetes.io/ssh-auth"}, {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "eA=="}},
            {"type": "kubernetes.io/dockerconfigjson"}, {"type": "kubernetes.io/service-account-token"}, {"immutable": "x"}, {"data": {"a": None}},
            {"data": {"a": "eA" + "=" * 3}}, {"type": "bootstrap.kubernetes.io/token"}, {"data": {"a": 1}}, {"data": {"..": "eA=="}},
        )
    ):  # fmt: skip
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s{number}"}, **more}
        yield Ask("POST", f"{SECRETS}?dryRun=All", body)


def _immutable() -> Iterator[Ask]:
    path = f"{MAPS}/fixed"
    yield Ask("POST", MAPS, {**config_map("fixed", {"a": "1"}), "immutable": True})
    for change in ({"data": {"a": "2"}}, {"immutable": False}, {"immutable": None}, {"binaryData": {"x": "eA=="}}):
        yield Ask("PATCH", path, change, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, {"Content-Type": MERGE})
    yield Ask("DELETE", path)
    yield Ask("POST", SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "typed"}, "type": "a"})
    yield Ask("PATCH", f"{SECRETS}/typed", {"type": "b"}, {"Content-Type": MERGE})
    yield Ask("DELETE", f"{SECRETS}/typed")


def _names() -> Iterator[Ask]:
    for meta in (
        {"generateName": "g-"}, {"generateName": "x" * 80}, {"name": "n", "generateName": "g-"}, {"name": "x" * 253}, {"name": "x" * 254},
        {"name": "a..b"}, {"name": "."}, {"name": "a/b"}, {"name": "a%b"}, {"name": "é"}, {"name": None}, {"generateName": "Bad"}, {},
        {"name": "n", "labels": {"a": "x" * 64}}, {"name": "n", "labels": {"x" * 64: "a"}}, {"name": "n", "labels": {"/a": ""}},
        {"name": "n", "labels": {"a/b/c": "d"}}, {"name": "n", "labels": {"": "d"}}, {"name": "n", "annotations": {"": "d"}},
        {"name": "n", "generation": -1}, {"name": "n", "selfLink": "x"}, {"name": "n", "uid": "mine"}, {"name": "n", "deletionGracePeriodSeconds": 5},
        {"name": "n", "creationTimestamp": "2024-01-01T00:00:00Z"}, {"name": "n", "finalizers": ["orphan", "foregroundDeletion"]},
        {"name": "n", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]},
        {"name": "n", "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
        {"name": "n", "managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]},
    ):  # fmt: skip
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        yield Ask("POST", f"{MAPS}?dryRun=All", body)


def _others() -> Iterator[tuple[str, Object]]:
    apps, batch, policy = (f"/apis/{group}/v1/namespaces/{NAMESPACE}" for group in ("apps", "batch", "policy"))
    networking = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}"

    spec: Object
    limits: Any

    def made(version: str, kind: str, **more: object) -> Object:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": "checked"}, **more}

    for spec in (
        {}, {"selector": {}, "template": TEMPLATE}, {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}, {**SELECTED, "replicas": -1},
        {**SELECTED, "strategy": {"type": "Odd"}}, {**SELECTED, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        {**SELECTED, "strategy": {"type": "Recreate", "rollingUpdate": {}}}, {**SELECTED, "minReadySeconds": 700}, {**SELECTED, "revisionHistoryLimit": -1},
        {**SELECTED, "strategy": {"rollingUpdate": {"maxSurge": "x%", "maxUnavailable": "150%"}}}, {**SELECTED, "progressDeadlineSeconds": 0},
        {**SELECTED, "selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}, {**SELECTED, "template": {**TEMPLATE, "spec": {**POD, "restartPolicy": "Never"}}},
    ):  # fmt: skip
        yield f"{apps}/deployments", made("apps/v1", "Deployment", spec=spec)
        yield f"{apps}/replicasets", made("apps/v1", "ReplicaSet", spec=spec)
        yield f"{apps}/daemonsets", made("apps/v1", "DaemonSet", spec=spec)
    for spec in (
        {**SELECTED}, {**SELECTED, "serviceName": "A b"}, {**SELECTED, "podManagementPolicy": "x"}, {**SELECTED, "updateStrategy": {"type": "x"}},
        {**SELECTED, "updateStrategy": {"rollingUpdate": {"partition": -1}}}, {**SELECTED, "volumeClaimTemplates": [{"metadata": {"name": "v"}}]},
        {**SELECTED, "ordinals": {"start": -1}}, {**SELECTED, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "x"}}, {**SELECTED, "minReadySeconds": -1},
    ):  # fmt: skip
        yield f"{apps}/statefulsets", made("apps/v1", "StatefulSet", spec=spec)
    for spec in (
        {}, {"template": TEMPLATE}, {"template": ONCE, "completions": -1, "parallelism": -1}, {"template": ONCE, "backoffLimit": -1},
        {"template": ONCE, "completionMode": "Odd"}, {"template": ONCE, "completionMode": "Indexed"}, {"template": ONCE, "selector": {"matchLabels": {"a": "b"}}},
        {"template": ONCE, "manualSelector": True}, {"template": ONCE, "ttlSecondsAfterFinished": -1}, {"template": ONCE, "podFailurePolicy": {"rules": [{"action": "x"}]}},
        {"template": ONCE, "backoffLimitPerIndex": 1}, {"template": ONCE, "successPolicy": {"rules": []}}, {"template": ONCE, "managedBy": "x"},
        {"template": ONCE, "podReplacementPolicy": "x"}, {"template": ONCE, "activeDeadlineSeconds": -1}, {"template": ONCE, "maxFailedIndexes": 3},
    ):  # fmt: skip
        yield f"{batch}/jobs", made("batch/v1", "Job", spec=spec)
    task = {"jobTemplate": {"spec": {"template": ONCE}}}
    for spec in (
        task, {**task, "schedule": ""}, {**task, "schedule": "x"}, {**task, "schedule": "TZ=UTC 0 * * * *"}, {**task, "schedule": "0 * * * *", "timeZone": "Mars/Sea"},
        {**task, "schedule": "@hourly", "concurrencyPolicy": "x"}, {**task, "schedule": "@daily", "startingDeadlineSeconds": -1},
        {**task, "schedule": "61 * * * *"}, {**task, "schedule": "* * * * *", "successfulJobsHistoryLimit": -1}, {"schedule": "* * * * *", "jobTemplate": {}},
    ):  # fmt: skip
        yield f"{batch}/cronjobs", made("batch/v1", "CronJob", spec=spec)
    for spec in (
        {}, {"minAvailable": 1, "maxUnavailable": 1}, {"minAvailable": -1}, {"minAvailable": "x"}, {"maxUnavailable": "200%"},
        {"minAvailable": 1, "unhealthyPodEvictionPolicy": "x"}, {"selector": {"matchLabels": {"a b": "c"}}},
    ):  # fmt: skip
        yield f"{policy}/poddisruptionbudgets", made("policy/v1", "PodDisruptionBudget", spec=spec)
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    for spec in (
        {}, {"defaultBackend": {}}, {"defaultBackend": {"service": {"name": "A b", "port": {}}}}, {"rules": [{"host": "*"}]}, {"rules": [{"host": "1.2.3.4"}]},
        {"rules": [{"http": {"paths": []}}]}, {"rules": [{"http": {"paths": [{"path": "a", "pathType": "Prefix", "backend": backend}]}}]},
        {"rules": [{"http": {"paths": [{"path": "/a", "backend": backend}]}}]}, {"tls": [{"hosts": ["A b"]}], "defaultBackend": backend}, {"ingressClassName": "A b", "defaultBackend": backend},
    ):  # fmt: skip
        yield f"{networking}/ingresses", made("networking.k8s.io/v1", "Ingress", spec=spec)
    for spec in (
        {}, {"podSelector": {}, "policyTypes": ["x"]}, {"podSelector": {}, "ingress": [{"from": [{}]}]}, {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]},
        {"podSelector": {}, "egress": [{"ports": [{"port": 0, "endPort": -1}]}]}, {"podSelector": {}, "ingress": [{"ports": [{"protocol": "x", "port": "A"}]}]},
    ):  # fmt: skip
        yield f"{networking}/networkpolicies", made("networking.k8s.io/v1", "NetworkPolicy", spec=spec)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for spec in (
        {}, claim, {**claim, "accessModes": []}, {**claim, "accessModes": ["x"]}, {**claim, "resources": {}}, {**claim, "volumeMode": "x"}, {**claim, "storageClassName": "A b"},
        {**claim, "dataSource": {"kind": "x", "name": ""}}, {**claim, "resources": {"requests": {"storage": "-1"}}}, {**claim, "accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]},
    ):  # fmt: skip
        yield f"{CORE}/persistentvolumeclaims", made("v1", "PersistentVolumeClaim", spec=spec)
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    for spec in (
        {}, volume, {**volume, "capacity": {}}, {**volume, "nfs": {"server": "a", "path": "b"}}, {**volume, "persistentVolumeReclaimPolicy": "x"}, {**volume, "nodeAffinity": {}},
        {**volume, "hostPath": None, "csi": {"driver": "A b", "volumeHandle": ""}}, {**volume, "hostPath": None, "local": {"path": "/x"}}, {**volume, "capacity": {"cpu": "1"}},
    ):  # fmt: skip
        yield "/api/v1/persistentvolumes", made("v1", "PersistentVolume", spec=spec)
    for spec in ({}, {"hard": {"pods": "-1"}}, {"hard": {"x": "1"}}, {"hard": {"pods": "1.5"}}, {"hard": {"cpu": "1"}, "scopes": ["x"]}, {"scopes": ["BestEffort", "NotBestEffort"], "hard": {"pods": "1"}}):  # fmt: skip
        yield f"{CORE}/resourcequotas", made("v1", "ResourceQuota", spec=spec)
    for limits in ([{}], [{"type": "x"}], [{"type": "Pod", "default": {"cpu": "1"}}], [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}], [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}]):  # fmt: skip
        yield f"{CORE}/limitranges", made("v1", "LimitRange", spec={"limits": limits})


def _nodes() -> Iterator[Ask]:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-pairs"}}
    path = "/api/v1/nodes/n-pairs"
    yield Ask("POST", "/api/v1/nodes", {**node, "spec": {"taints": [{"key": "a", "effect": "x"}]}})
    yield Ask("POST", "/api/v1/nodes", {**node, "spec": {"podCIDR": "x", "providerID": "p"}})
    yield Ask("POST", "/api/v1/nodes", {**node, "spec": {"providerID": "p"}, "status": {"capacity": {"cpu": "4"}}})
    yield Ask("PATCH", path, {"spec": {"providerID": "q"}}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute"}] * 2}}, {"Content-Type": MERGE})  # fmt: skip
    yield Ask("PATCH", path, {"spec": {"unschedulable": True}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/status", {"status": {"capacity": {"cpu": "x"}}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/status", {"status": {"capacity": {"cpu": "8", "pods": "110"}}}, {"Content-Type": MERGE})
    yield Ask("GET", path, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    yield Ask("DELETE", path)
