"""Services, endpoints, nodes, volumes, replication controllers, quotas and limit ranges: defaults and validation."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from shoal.kinds.core import (
    endpoints,
    nodes,
    persistentvolume,
    persistentvolumeclaim,
    replicationcontroller,
    resourcequota,
)
from shoal.kinds.core.service import service_validation, services
from shoal.kinds.validation.diff import diff, semantic_equal
from shoal.objects.errors import Cause

Object = dict[str, Any]


def copy(obj: Object) -> Object:
    made: Object = orjson.loads(orjson.dumps(obj))
    return made


def messages(causes: list[Cause]) -> list[str]:
    return [cause.message for cause in causes]


# --- services ---


def service(**spec: object) -> Object:
    made: Object = {"metadata": {"name": "s"}, "spec": dict(spec)}
    services.default_service(made)
    services.prepare_service_create(made)
    return made


def service_messages(**spec: object) -> list[str]:
    return messages(service_validation.validate_service(service(**spec), None))


def test_a_service_is_filled() -> None:
    assert service(ports=[{"port": 80}]) == {
        "metadata": {"name": "s"},
        "spec": {
            "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    }
    balanced = service(ports=[{"port": 80}], type="LoadBalancer")["spec"]
    assert (balanced["externalTrafficPolicy"], balanced["allocateLoadBalancerNodePorts"]) == ("Cluster", True)
    sticky = service(ports=[{"port": 80}], sessionAffinity="ClientIP")["spec"]
    assert sticky["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    assert service(clusterIP="None")["spec"]["clusterIPs"] == ["None"]


PORT = [{"port": 80}]


@pytest.mark.parametrize(
    ("spec", "complaints"),
    [
        ({"ports": PORT}, []),
        ({"clusterIP": "None"}, []),
        ({}, ["spec.ports: Required value"]),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"type": "ExternalName", "externalName": "x", "clusterIP": "None"},
            ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
        ),
        (
            {"type": "Foo", "ports": PORT},
            [
                (
                    'spec.type: Unsupported value: "Foo": supported values: '
                    '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
                )
            ],
        ),
        (
            {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]},
            ['spec.ports[1].name: Duplicate value: "a"'],
        ),
        ({"ports": [{"port": 1}, {"port": 2, "name": "a"}]}, ["spec.ports[0].name: Required value"]),
        (
            {"ports": [{"port": 1, "nodePort": 30000}]},
            ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            {"ports": PORT, "clusterIP": "foo"},
            [
                (
                    'spec.clusterIPs[0]: Invalid value: "foo": must be a valid IP address, '
                    "(e.g. 10.9.8.7 or 2001:db8::ffff)"
                )
            ],
        ),
        (
            {"ports": PORT, "clusterIPs": ["10.0.0.9"]},
            [
                'spec.clusterIPs: Invalid value: ["10.0.0.9"]: must be empty when `clusterIP` is not specified',
            ],
        ),
        (
            {"ports": PORT, "type": "NodePort", "clusterIP": "None"},
            ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
        ),
        (
            {"ports": PORT, "loadBalancerClass": "x/y"},
            ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        ),
    ],
)
def test_what_a_service_may_not_be(spec: Object, complaints: list[str]) -> None:
    assert service_messages(**spec) == complaints


def test_wrong_addresses_of_a_service_are_told_alone() -> None:
    assert service_messages(clusterIP="10.0.1.1", ipFamilies=["IPv6"]) == [
        'spec.clusterIPs[0]: Invalid value: "10.0.1.1": expected an IPv6 value as indicated by `ipFamilies[0]`'
    ]
    assert service_messages(ipFamilyPolicy="x", sessionAffinity="x") == [
        (
            'spec.ipFamilyPolicy: Unsupported value: "x": supported values: "PreferDualStack", "RequireDualStack", '
            '"SingleStack"'
        )
    ]


def test_only_balanced_services_have_ingresses() -> None:
    old = service(ports=[{"port": 80}])
    new = {**old, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    assert messages(service_validation.validate_service(new, old)) == [
        "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]


def test_node_ports_stay_with_the_name_of_a_port() -> None:
    old = service(ports=[{"port": 80, "nodePort": 30123}], type="NodePort", clusterIP="10.0.1.1")
    new = service(ports=[{"port": 81}], type="NodePort")
    services.prepare_service_update(new, old)
    assert new["spec"]["ports"][0]["nodePort"] == 30123


def test_the_id_of_a_node_is_fixed_and_its_network_one_of_a_family() -> None:
    assert messages(nodes.validate_node({"spec": {"externalID": "a"}}, {"spec": {}})) == [
        "spec.externalID: Forbidden: may not be updated"
    ]
    said = messages(nodes.validate_node({"spec": {"podCIDRs": ["x", "10.0.0.0/8"]}}, None))
    assert said[1] == (
        "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:"
        "invalid CIDR[0]: <nil> (invalid CIDR address: x)"
    )
    node: dict[str, Any] = {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.2.0.0/24"], "configSource": {}}}
    nodes.default_node(node)
    nodes.drop_config_source(node)
    assert node["spec"] == {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}


def test_an_update_keeps_what_was_allocated() -> None:
    old = service(ports=[{"port": 80, "nodePort": 30000}], type="NodePort", clusterIP="10.0.1.1")
    new = service(ports=[{"port": 80}], type="NodePort")
    services.prepare_service_update(new, old)
    assert (new["spec"]["clusterIP"], new["spec"]["ports"][0]["nodePort"]) == ("10.0.1.1", 30000)
    assert messages(service_validation.validate_service(new, old)) == []
    plain = copy(old)
    plain["spec"]["type"] = "ClusterIP"
    services.prepare_service_update(plain, old)
    assert "nodePort" not in plain["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in plain["spec"]
    outside = copy(old)
    outside["spec"] |= {"type": "ExternalName", "externalName": "x"}
    services.prepare_service_update(outside, old)
    assert "clusterIP" not in outside["spec"]
    assert "clusterIPs" not in outside["spec"]


def test_the_address_stays() -> None:
    old = service(ports=PORT, clusterIP="10.0.1.1")
    new = copy(old)
    new["spec"]["clusterIP"] = "10.0.1.2"
    services.prepare_service_update(new, old)
    assert messages(service_validation.validate_service(new, old)) == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.1.2"]: may not change once set'
    ]


def test_endpoints() -> None:
    made: Object = {"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]}
    endpoints.default_endpoints(made)
    assert made["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert endpoints.validate_endpoints(made, None) == []
    made["subsets"][0]["ports"][0]["appProtocol"] = "a/b/c"
    assert messages(endpoints.validate_endpoints(made, None))[0].startswith(
        'subsets[0].ports[0].appProtocol: Invalid value: "a/b/c": a valid label key must consist of'
    )
    made = {"subsets": [{"ports": [{"port": 0, "protocol": "TCP"}]}, {"addresses": [{"ip": "127.0.0.1"}]}]}
    assert messages(endpoints.validate_endpoints(made, None)) == [
        "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
        "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        (
            'subsets[1].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range '
            "(127.0.0.0/8, ::1/128)"
        ),
    ]
    assert endpoints.validate_endpoints(made, copy(made)) == []


# --- nodes ---


def node(spec: Object | None = None, **status: object) -> Object:
    made: Object = {"metadata": {"name": "n"}, "spec": spec or {}, "status": dict(status)}
    nodes.default_node(made)
    return made


def test_a_node_is_filled() -> None:
    made = node({"podCIDR": "10.1.0.0/24", "unschedulable": False}, capacity={"cpu": 4})
    assert made["spec"] == {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}
    assert made["status"]["allocatable"] == made["status"]["capacity"] == {"cpu": "4"}
    assert made["status"]["nodeInfo"]["kubeletVersion"] == ""
    assert nodes.validate_node(made, None) == []


def test_what_a_node_may_not_be() -> None:
    taints = [{"key": "a", "effect": "X"}, {"key": "b", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    assert messages(nodes.validate_node(node({"taints": taints}, capacity={"pods": "1.5"}), None)) == [
        (
            'metadata.taints[0].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", '
            '"NoExecute"'
        ),
        (
            'metadata.taints[2]: Duplicate value: {"Key":"b","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
            "taints must be unique by key and effect pair"
        ),
        'status.capacity.pods: Invalid value: "1500m": must be an integer',
        'status.allocatable.pods: Invalid value: "1500m": must be an integer',
    ]
    old, new = node({"podCIDR": "10.1.0.0/24", "providerID": "a"}), node({"podCIDR": "10.2.0.0/24", "providerID": "b"})
    assert messages(nodes.validate_node(new, old)) == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
    ]
    assert nodes.validate_node(new, node()) == []


# --- volumes ---


def claim(phase: str = "Pending", storage: str = "1Gi", **spec: object) -> Object:
    requests = {"requests": {"storage": storage}}
    made: Object = {"metadata": {}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests, **spec}}
    persistentvolumeclaim.default_claim(made)
    persistentvolumeclaim.prepare_claim_create(made)
    made["status"]["phase"] = phase
    return made


def test_a_claim_is_filled_and_then_stays() -> None:
    old = claim()
    assert old["spec"]["volumeMode"] == "Filesystem"
    assert persistentvolumeclaim.validate_claim(old, None) == []
    assert persistentvolumeclaim.validate_claim(claim(volumeName="v"), old) == []
    assert persistentvolumeclaim.validate_claim(claim(storageClassName="fast"), old) == []
    assert persistentvolumeclaim.validate_claim(claim("Bound", "2Gi"), claim("Bound")) == []
    assert messages(persistentvolumeclaim.validate_claim(claim("Pending", "2Gi"), old)) == [
        (
            "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
            'for bound claims\n- spec.resources.requests.storage: "1Gi"\n+ spec.resources.requests.storage: "2Gi"\n'
        )
    ]
    bound = claim("Bound", "2Gi")
    bound["status"]["capacity"] = {"storage": "2Gi"}
    assert messages(persistentvolumeclaim.validate_claim(claim("Bound", "1Gi"), bound)) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]


def test_what_a_claim_may_not_be() -> None:
    assert messages(persistentvolumeclaim.validate_claim_spec({"accessModes": ["Foo"]}, "spec")) == [
        (
            'spec.accessModes: Unsupported value: "Foo": supported values: "ReadOnlyMany", "ReadWriteMany", '
            '"ReadWriteOnce", "ReadWriteOncePod"'
        ),
        "spec.resources[storage]: Required value",
    ]
    dropped = claim(dataSource={"name": "x", "kind": "Y"})
    assert "dataSource" not in dropped["spec"]
    assert messages(
        persistentvolumeclaim.validate_claim(claim(storage="0", dataSourceRef={"name": "x", "kind": "Y"}), None)
    ) == [
        'spec.resources[storage]: Invalid value: "0": must be greater than zero',
        "spec.dataSource: Invalid value: \"Y\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        (
            "spec.dataSourceRef: Invalid value: \"Y\": must be 'PersistentVolumeClaim' "
            "when referencing the default apiGroup"
        ),
    ]


def test_a_claim_and_its_sources_say_the_same() -> None:
    old = claim(dataSource={"name": "x", "kind": "PersistentVolumeClaim"})
    assert old["spec"]["dataSourceRef"] == old["spec"]["dataSource"]
    assert "dataSourceRef" not in claim(dataSourceRef={"name": "x", "kind": "Y", "namespace": "n"})["spec"]
    other = {"name": "y", "kind": "PersistentVolumeClaim"}
    assert messages(
        persistentvolumeclaim.validate_claim(claim(dataSource=other, dataSourceRef=other | {"name": "z"}), None)
    ) == ["spec: Invalid value: {}: must match dataSourceRef"]
    new = copy(old)
    del new["spec"]["dataSourceRef"]
    persistentvolumeclaim.prepare_claim_update(new, old)
    assert new == old


def test_a_claim_has_the_class_of_its_attributes() -> None:
    assert messages(persistentvolumeclaim.validate_claim(claim(volumeAttributesClassName="::"), None))[0].startswith(
        'spec.volumeAttributesClassName: Invalid value: "::": a lowercase RFC 1123 subdomain must'
    )
    old = claim("Bound", volumeAttributesClassName="gold")
    assert persistentvolumeclaim.validate_claim(claim("Bound", volumeAttributesClassName="silver"), old) == []
    old["status"]["currentVolumeAttributesClassName"] = "gold"
    assert messages(persistentvolumeclaim.validate_claim(claim("Bound"), old)) == [
        (
            "spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when "
            "status.currentVolumeAttributesClassName is not nil"
        )
    ]


def test_the_status_of_a_claim() -> None:
    old = claim("Bound")
    new = copy(old)
    new["status"] |= {"capacity": {"storage": "-1"}, "allocatedResources": {"cpu": "1", "storage": "-2"}}
    new["status"]["allocatedResourceStatuses"] = {"storage": "x"}
    assert [
        cause.partition(": supported")[0] for cause in messages(persistentvolumeclaim.validate_claim(new, old))
    ] == [
        "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
        'status.allocatedResourceStatuses: Unsupported value: "storage"',
        'status.allocatedResources: Unsupported value: "cpu"',
        "status.allocatedResources[storage]: Invalid value: -2: must be a valid resource quantity",
    ]


def test_the_class_of_a_claim_by_annotation_stays() -> None:
    old, key = claim(), "volume.beta.kubernetes.io/storage-class"
    old["metadata"]["annotations"] = {key: "slow"}
    assert persistentvolumeclaim.validate_claim(claim(storageClassName="slow"), old) == []
    assert messages(persistentvolumeclaim.validate_claim(claim(), old)) == [
        f'metadata.annotations.{key}: Invalid value: "": field is immutable'
    ]


def test_where_a_volume_can_be_used_stays() -> None:
    def on(key: str) -> Object:
        terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]
        return volume(hostPath={"path": "/x"}, nodeAffinity={"required": {"nodeSelectorTerms": terms}})

    old = on("failure-domain.beta.kubernetes.io/zone")
    assert persistentvolume.validate_volume(old, volume(hostPath={"path": "/x"})) == []
    assert persistentvolume.validate_volume(on("topology.kubernetes.io/zone"), old) == []
    assert messages(persistentvolume.validate_volume(on("other"), old))[0].endswith(
        "field is immutable, except for updating from beta label to GA"
    )


def volume(**source: object) -> Object:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    made: Object = {"metadata": {"name": "v"}, "spec": spec}
    persistentvolume.default_volume(made)
    return made


SECRETS = {"driver": "a.b", "volumeHandle": "h", "nodePublishSecretRef": {"name": "_"}}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"nfs": {}}, ["server: Required value", "path: Required value", 'path: Invalid value: "": must be an absolu']),
        (
            {"hostPath": {"path": "/..", "type": "x"}},
            ['path: Invalid value: "/..": must not', 'type: Unsupported value: "x"'],
        ),
        ({"iscsi": {"targetPortal": "p", "iqn": "x"}}, ['iqn: Invalid value: "x": must be valid format']),
        ({"quobyte": {"registry": "a:1,b", "volume": "v"}}, ['registry: Invalid value: "a:1,b": must be a host:port']),
        (
            {"flexVolume": {"driver": "d", "options": {"x.k8s.io/y": ""}}},
            ['options[x.k8s.io/y]: Invalid value: "x.k8s.i'],
        ),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "u"}},
            ['diskURI: Unsupported value: "u": supported values: "http'],
        ),
        ({"fc": {"targetWWNs": ["a"]}}, ["lun: Required value: lun is required if targetWWNs is specified"]),
        (
            {"csi": SECRETS},
            ['nodePublishSecretRef.name: Invalid value: "_"', "nodePublishSecretRef.namespace: Required"],
        ),
    ],
)
def test_each_source_of_a_volume_has_its_rules(source: Object, said: list[str]) -> None:
    causes = messages(persistentvolume.validate_volume(volume(**source), None))
    assert all(
        cause.startswith(f"spec.{kind}.{words}") for kind in source for cause, words in zip(causes, said, strict=True)
    )


def test_a_volume_has_one_source() -> None:
    both = volume(local={"path": "/x"}, nfs={"server": "s", "path": "up"}, nodeAffinity={})
    assert messages(persistentvolume.validate_volume(both, None)) == [
        "spec.nodeAffinity.required: Required value: must specify required node constraints",
        'spec.nfs.path: Invalid value: "up": must be an absolute path',
        "spec.local: Forbidden: may not specify more than 1 volume type",
    ]


def test_what_is_old_is_told() -> None:
    made = volume(rbd={"monitors": ["m"], "image": "i"}, persistentVolumeReclaimPolicy="Recycle")
    assert made["spec"]["rbd"]["pool"] == "rbd"
    assert [words.partition(": ")[0] for words in persistentvolume.warn_volume(made, None)] == [
        "spec.persistentVolumeReclaimPolicy",
        "spec.rbd",
    ]
    assert persistentvolumeclaim.warn_claim(claim(storage="1500m"), None) == [
        'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    ]


def test_a_volume() -> None:
    made = volume(nfs={"server": "s", "path": "/"})
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert persistentvolume.validate_volume(made, None) == []
    new = copy(made)
    new["spec"]["nfs"]["server"] = "t"
    assert messages(persistentvolume.validate_volume(new, made)) == [
        (
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"
            '- spec.nfs.server: "s"\n+ spec.nfs.server: "t"\n'
        )
    ]
    assert messages(persistentvolume.validate_volume({"metadata": {}, "spec": {}}, None)) == [
        "spec.accessModes: Required value",
        "spec.capacity: Required value",
        'spec.capacity: Unsupported value: null: supported values: "storage"',
        "spec: Required value: must specify a volume type",
    ]


# --- replication controllers ---


def test_a_controller_takes_its_labels_from_its_template() -> None:
    pod = {"containers": [{"name": "c", "image": "x"}]}
    made: Object = {"metadata": {}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}}
    replicationcontroller.default_replication_controller(made)
    assert made["metadata"]["labels"] == made["spec"]["selector"] == {"a": "b"}
    assert made["spec"]["replicas"] == 1
    assert made["status"] == {"replicas": 0}
    assert replicationcontroller.validate_replication_controller(made, None) == []
    made["spec"] |= {"replicas": -1, "selector": {"x": "y"}}
    assert messages(replicationcontroller.validate_replication_controller(made, None)) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
    ]
    status = copy(made) | {"status": {"replicas": 1, "readyReplicas": 2}}
    assert messages(replicationcontroller.validate_replication_controller(status, made)) == [
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"
    ]


# --- quotas and limits ---


def quota(**spec: object) -> Object:
    made: Object = {"spec": dict(spec)}
    resourcequota.default_quota(made)
    return made


def test_quotas() -> None:
    assert quota(hard={"cpu": 0.5})["spec"]["hard"] == {"cpu": "500m"}
    assert (
        resourcequota.validate_quota(quota(hard={"pods": "1", "count/jobs.batch": "2", "limits.cpu": "1"}), None) == []
    )
    assert messages(resourcequota.validate_quota(quota(hard={"pods": "1.5", "foo": "1"}), None)) == [
        'spec.hard[pods]: Invalid value: "1500m": must be an integer',
        'spec.hard[foo]: Invalid value: "foo": must be a standard resource type or fully qualified',
        'spec.hard[foo]: Invalid value: "foo": must be a standard resource for quota',
    ]
    assert messages(
        resourcequota.validate_quota(quota(hard={"cpu": "1"}, scopes=["BestEffort", "NotBestEffort"]), None)
    ) == [
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes',
    ]
    assert messages(resourcequota.validate_quota(quota(scopes=["Terminating"]), quota())) == [
        'spec.scopes: Invalid value: ["Terminating"]: field is immutable'
    ]


def test_limits() -> None:
    made: Object = {"spec": {"limits": [{"type": "Container", "max": {"cpu": 1}, "min": {"memory": "1Gi"}}]}}
    resourcequota.default_limit_range(made)
    limit = made["spec"]["limits"][0]
    assert (limit["default"], limit["defaultRequest"]) == ({"cpu": "1"}, {"cpu": "1", "memory": "1Gi"})
    assert resourcequota.validate_limit_range(made, None) == []
    wrong = {"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}
    assert messages(resourcequota.validate_limit_range({"spec": {"limits": [wrong, {"type": "Foo"}]}}, None)) == [
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        'spec.limits[1].type: Invalid value: "Foo": must be a standard limit type or fully qualified',
    ]


def test_empty_and_absent_are_one() -> None:
    assert semantic_equal({"a": [], "b": {"c": ""}}, {"b": {}})
    assert not semantic_equal({"a": 0}, {})
    assert diff({"a": [1, 2], "b": []}, {"a": [1, 3]}) == "- a[1]: 3\n+ a[1]: 2\n"
