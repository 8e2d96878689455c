"""PodSpec: defaults and validation messages."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.core.pod.spec import (
    default_pod_only_fields,
    default_pod_spec,
    default_pod_template,
    validate_pod_spec,
    validate_pod_template,
)
from shoal.kinds.core.pod_defaults import default_pull_policy
from shoal.objects.errors import BadRequest

Object = dict[str, Any]


def spec(container: Object | None = None, **fields: object) -> Object:
    made = {"containers": [{"name": "c", "image": "nginx", **(container or {})}], **fields}
    default_pod_spec(made)
    return made


def spec_messages(container: Object | None = None, **fields: object) -> list[str]:
    return [cause.message for cause in validate_pod_spec(spec(container, **fields), "spec")]


def test_the_least_spec_gets_everything_else() -> None:
    assert spec() == {
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    assert spec_messages() == []


def test_defaulting_twice_changes_nothing() -> None:
    probe = {"httpGet": {"port": 80}}
    once = spec({"livenessProbe": probe, "resources": {"limits": {"cpu": "0.5"}}}, volumes=[{"name": "v"}])
    default_pod_only_fields(once)
    twice = {**once}
    default_pod_spec(twice)
    default_pod_only_fields(twice)
    assert twice == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
        ("nginx:latest@sha256:abc", "Always"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert default_pull_policy(image) == policy


def test_probes_ports_and_variables_are_filled() -> None:
    container = spec(
        {
            "ports": [{"containerPort": 80}],
            "env": [
                {"name": "A", "value": ""},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ],
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 1}},
        }
    )["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["env"] == [
        {"name": "A"},
        {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}},
    ]
    numbers = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    assert container["livenessProbe"] == {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, **numbers}
    assert container["readinessProbe"] == {"grpc": {"port": 1, "service": ""}, **numbers}


def test_volumes_are_filled() -> None:
    token = {"serviceAccountToken": {"path": "t"}}
    volumes = [
        {"name": "a"},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "c", "hostPath": {"path": "/x"}},
        {"name": "d", "projected": {"sources": [token]}},
    ]
    assert spec(volumes=volumes)["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
        {"name": "c", "hostPath": {"path": "/x", "type": ""}},
        {
            "name": "d",
            "projected": {
                "defaultMode": 420,
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
            },
        },
    ]


def test_only_a_pod_has_requests_from_its_limits() -> None:
    made = spec({"resources": {"limits": {"cpu": 0.5, "memory": "1.5Gi"}, "requests": {"cpu": "100m"}}})
    assert made["containers"][0]["resources"]["requests"] == {"cpu": "100m"}
    default_pod_only_fields(made)
    assert made["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1536Mi"},
        "requests": {"cpu": "100m", "memory": "1536Mi"},
    }
    assert made["enableServiceLinks"] is True


def test_a_pod_on_the_host_network_has_host_ports() -> None:
    made = spec({"ports": [{"containerPort": 80}]}, hostNetwork=True)
    default_pod_only_fields(made)
    assert made["containers"][0]["ports"][0]["hostPort"] == 80


def test_the_account_has_two_names() -> None:
    assert spec(serviceAccount="x")["serviceAccountName"] == "x"
    assert spec(serviceAccountName="y", serviceAccount="x")["serviceAccount"] == "y"
    assert "serviceAccount" not in spec(serviceAccount="")


def test_empty_is_absent() -> None:
    made = spec({"stdin": False, "args": []}, hostNetwork=False, nodeName="", tolerations=[], nodeSelector={})
    assert made == spec()


def test_no_quantity() -> None:
    with pytest.raises(BadRequest, match="quantities must match the regular expression"):
        spec({"resources": {"limits": {"cpu": "abc"}}})


def test_a_template_has_metadata_and_its_labels_their_own_path() -> None:
    holder: Object = {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    default_pod_template(holder)
    assert holder["template"]["metadata"] == {}
    assert validate_pod_template(holder["template"], "spec.template") == []
    holder["template"]["metadata"]["labels"] = {"a b": "c"}
    assert [cause.field for cause in validate_pod_template(holder["template"], "t")] == ["t.labels"]
    default_pod_template({"no": "template"})


C = "spec.containers[0]"
PROBE = {"exec": {"command": ["x"]}}


@pytest.mark.parametrize(
    ("container", "complaint"),
    [
        ({"name": ""}, f"{C}.name: Required value"),
        ({"image": ""}, f"{C}.image: Required value"),
        ({"imagePullPolicy": "Q"}, (f'{C}.imagePullPolicy: Unsupported value: "Q": supported values: '
                                   '"Always", "IfNotPresent", "Never"')),
        ({"ports": [{"hostPort": 1}]}, f"{C}.ports[0].containerPort: Required value"),
        ({"ports": [{"containerPort": 70000}]},
         f"{C}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"),
        ({"ports": [{"containerPort": 1, "protocol": "X"}]},
         f'{C}.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"'),
        ({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
         f'{C}.ports[1].name: Duplicate value: "a"'),
        ({"ports": [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]},
         f'{C}.ports[1].hostPort: Duplicate value: "TCP//5"'),
        ({"env": [{"name": ""}]}, f"{C}.env[0].name: Required value"),
        ({"env": [{"name": "a="}]}, (f'{C}.env[0].name: Invalid value: "a=": a valid environment variable name must '
                                    "consist only of printable ASCII characters other than '='")),
        ({"env": [{"name": "a", "value": "b", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
         f'{C}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'),
        ({"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
         (f'{C}.env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: '
         '"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
         '"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"')),
        ({"envFrom": [{}]}, f'{C}.envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
        ({"volumeMounts": [{"name": "q", "mountPath": "/x"}]}, f'{C}.volumeMounts[0].name: Not found: "q"'),
        ({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
         f'{C}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'),
        ({"resources": {"requests": {"memory": "-1"}}},
         f'{C}.resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"resources": {"requests": {"example.com/gpu": "1"}}},
         f"{C}.resources.limits: Required value: Limit must be set for non overcommitable resources"),
        ({"livenessProbe": {}}, f"{C}.livenessProbe: Required value: must specify a handler type"),
        ({"livenessProbe": {**PROBE, "tcpSocket": {"port": 1}}},
         f"{C}.livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"),
        ({"livenessProbe": {**PROBE, "successThreshold": 2}},
         f"{C}.livenessProbe.successThreshold: Invalid value: 2: must be 1"),
        ({"readinessProbe": {**PROBE, "periodSeconds": -1}},
         f"{C}.readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0"),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
         (f"{C}.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than "
         "terminationGracePeriodSeconds (30)")),
        ({"securityContext": {"runAsUser": -1}},
         f"{C}.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    ],
)  # fmt: skip
def test_what_a_container_may_not_be(container: Object, complaint: str) -> None:
    assert spec_messages(container) == [complaint]


AFFINITY: Object = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"restartPolicy": "No"},
         'spec.restartPolicy: Unsupported value: "No": supported values: "Always", "OnFailure", "Never"'),
        ({"dnsPolicy": "None"}, "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
        ({"activeDeadlineSeconds": 0},
         "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"),
        ({"initContainers": [{"name": "c", "image": "x"}]}, 'spec.initContainers[0].name: Duplicate value: "c"'),
        ({"initContainers": [{"name": "i", "image": "x", "livenessProbe": PROBE}]},
         ("spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
         "restartPolicy=Always")),
        ({"volumes": [{"name": "a", "secret": {}}]}, "spec.volumes[0].secret.secretName: Required value"),
        ({"volumes": [{"name": "a"}, {"name": "a"}]}, 'spec.volumes[1].name: Duplicate value: "a"'),
        ({"volumes": [{"name": "a", "emptyDir": {}, "configMap": {"name": "x"}}]},
         "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/../x"}}]},
         "spec.volumes[0].hostPath.path: Invalid value: \"/../x\": must not contain '..'"),
        ({"tolerations": [{"operator": "Equal"}]},
         ('spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which '
         'means "match all values and all keys"')),
        ({"tolerations": [{"key": "a", "effect": "Z"}]},
         ('spec.tolerations[0].effect: Unsupported value: "Z": supported values: "NoSchedule", "PreferNoSchedule", '
         '"NoExecute"')),
        ({"affinity": AFFINITY},
         ("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
         "Required value: must have at least one node selector term")),
        ({"topologySpreadConstraints": [{**SPREAD, "maxSkew": 0}]},
         "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"),
        ({"topologySpreadConstraints": [SPREAD, SPREAD]},
         ("spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: "
         '"{zone, DoNotSchedule}"')),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, 'spec.schedulingGates[1]: Duplicate value: "a"'),
        ({"hostAliases": [{"ip": "x"}]},
         'spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'),
        ({"hostPID": True, "shareProcessNamespace": True},
         ("spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot "
         "both be enabled")),
        ({"securityContext": {"seccompProfile": {}}},
         "spec.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set"),
        ({"securityContext": {"sysctls": [{"name": "net.a"}]}, "hostNetwork": True},
         ("spec.securityContext.sysctls[0].name: Invalid value: \"net.a\": "
         "may not be specified when 'hostNetwork' is true")),
        ({"securityContext": {"supplementalGroupsPolicy": "x"}},
         ('spec.securityContext.supplementalGroupsPolicy: Unsupported value: "x": supported values: "Merge", '
         '"Strict"')),
        ({"hostUsers": False, "hostIPC": True}, "spec.HostIPC: Forbidden: when `hostUsers` is false"),
        ({"hostnameOverride": "a", "setHostnameAsFQDN": True},
         "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true"),
        ({"volumes": [{"name": "a", "nfs": {"server": "s", "path": "x"}}]},
         'spec.volumes[0].nfs.path: Invalid value: "x": must be an absolute path'),
        ({"os": {"name": "dos"}}, 'spec.os: Unsupported value: "dos": supported values: "linux", "windows"'),
    ],
)  # fmt: skip
def test_what_a_spec_may_not_be(fields: Object, complaint: str) -> None:
    assert spec_messages(**fields) == [complaint]


def test_containers_are_restarted_by_rules() -> None:
    container = {"name": "c", "image": "x", "restartPolicyRules": [{"action": "x"}], "resizePolicy": [{}]}
    assert spec_messages(containers=[container]) == [
        "spec.containers[0].resizePolicy: Required value",
        "spec.containers[0].resizePolicy: Required value",
        "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
        (
            'spec.containers[0].restartPolicyRules[0].action: Unsupported value: "x": supported values: "Restart", '
            '"RestartAllContainers"'
        ),
        "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
    ]


def test_search_domains_may_have_underscores() -> None:
    assert spec_messages(dnsConfig={"searches": ["_a.b_c.", "."]}) == []
    assert spec_messages(dnsConfig={"searches": ["A b"]})[0].startswith(
        'spec.dnsConfig.searches[0]: Invalid value: "A b": '
    )


def test_a_spec_without_containers() -> None:
    empty: Object = {}
    default_pod_spec(empty)
    assert [cause.message for cause in validate_pod_spec(empty, "spec")] == ["spec.containers: Required value"]


def test_ephemeral_containers_are_poor() -> None:
    complaints = spec_messages(ephemeralContainers=[{"name": "e", "image": "x", "ports": [{"containerPort": 1}]}])
    assert complaints == ["spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container"]
    complaints = spec_messages(ephemeralContainers=[{"name": "c", "image": "x", "targetContainerName": "z"}])
    assert complaints == [
        'spec.ephemeralContainers[0].name: Duplicate value: "c"',
        'spec.ephemeralContainers[0].targetContainerName: Not found: "z"',
    ]
