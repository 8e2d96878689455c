"""Volumes, claims and the kinds of storage.k8s.io: each source, and what may change of them."""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import MERGE, NAMESPACE

ROOT = "/apis/storage.k8s.io/v1"
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
BASE = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
HOST: Object = {"hostPath": {"path": "/x"}}
SELF = {"kind": "PersistentVolumeClaim", "name": "a"}


def stories() -> Iterator[Story]:
    for number, spec in enumerate(_volumes()):
        yield _checked(f"volume {number}", VOLUMES, "v1", "PersistentVolume", spec={**BASE, **spec})
    for number, notes in enumerate(({"volume.beta.kubernetes.io/storage-class": "x"}, {"volume.beta.kubernetes.io/mount-options": "x"})):  # fmt: skip
        yield _checked(f"old volume {number}", VOLUMES, "v1", "PersistentVolume", notes, spec={**BASE, **HOST})
        yield _checked(f"old claim {number}", CLAIMS, "v1", "PersistentVolumeClaim", notes, spec=CLAIM)
    for number, spec in enumerate(_claims()):
        yield _checked(f"claim {number}", CLAIMS, "v1", "PersistentVolumeClaim", spec={**CLAIM, **spec})
    for number, (plural, kind, body) in enumerate(_others()):
        path = f"{ROOT}/namespaces/{NAMESPACE}/{plural}" if plural == "csistoragecapacities" else f"{ROOT}/{plural}"
        yield _checked(f"{number} {kind}", path, "storage.k8s.io/v1", kind, **body)
    yield Story("storage: volumes change", tuple(_volume_changes()))
    yield Story("storage: claims change", tuple(_claim_changes()))
    yield Story("storage: drivers change", tuple(_driver_changes()))
    yield Story("storage: attachments change", tuple(_attachment_changes()))


def _checked(name: str, path: str, version: str, kind: str, notes: Object | None = None, **body: object) -> Story:
    metadata = {"name": "checked", **({"annotations": notes} if notes else {})}
    whole = {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
    return Story(f"storage: {name}", (Ask("POST", f"{path}?dryRun=All", whole),))


def _volumes() -> Iterator[Object]:
    disk: Object
    more: Object
    for path in ({}, {"path": "/a/../b"}, {"path": "/x", "type": "Directory"}, {"path": "/x", "type": "x"}):
        yield {"hostPath": path}
    for policy in ({"path": "/"}, {"path": "/x"}):
        yield {"hostPath": policy, "persistentVolumeReclaimPolicy": "Recycle"}
    for disk in (
        {},
        {"pdName": "a", "partition": 256},
        {"pdName": "a", "partition": -1},
        {"pdName": "a", "partition": 1},
    ):
        yield {"gcePersistentDisk": disk}
    for disk in ({}, {"volumeID": "a", "partition": 300}, {"volumeID": "a"}):
        yield {"awsElasticBlockStore": disk}
    for gluster in ({}, {"endpoints": "a", "path": "b", "endpointsNamespace": ""}, {"endpoints": "a", "path": "b", "endpointsNamespace": "A"}, {"endpoints": "a", "path": "b"}):  # fmt: skip
        yield {"glusterfs": gluster}
    for flocker in ({}, {"datasetName": "a", "datasetUUID": "b"}, {"datasetName": "a/b"}, {"datasetUUID": "b"}):
        yield {"flocker": flocker}
    for nfs in ({}, {"server": "a"}, {"path": "a"}, {"server": "a", "path": "/a"}):
        yield {"nfs": nfs}
    for rbd in ({}, {"monitors": ["a"], "image": "b"}, {"monitors": ["a"], "image": "b", "user": "u"}):
        yield {"rbd": rbd}
    for registry in ("", "a", "a:1", "a:1,b", "a:1:2", "[::1]:2", "a:1,b:2", ":1"):
        yield {"quobyte": {"registry": registry, "volume": "v"}}
    yield {"quobyte": {"registry": "a:1", "tenant": "x" * 65}}
    for ceph in ({}, {"monitors": ["a"]}):
        yield {"cephfs": ceph}
    iqn = "iqn.2001-04.com.example:storage.disk"
    for iscsi in (
        {}, {"targetPortal": "p", "iqn": "x"}, {"targetPortal": "p", "iqn": "iqn.x"}, {"targetPortal": "p", "iqn": iqn, "lun": 256}, {"targetPortal": "p", "iqn": iqn, "lun": 1},
        {"targetPortal": "p", "iqn": iqn, "chapAuthSession": True}, {"targetPortal": "p", "iqn": iqn, "chapAuthDiscovery": True, "secretRef": {}}, {"targetPortal": "p", "iqn": "eui.0123456789ABCDEF"},
        {"targetPortal": "p", "iqn": "eui.0"}, {"targetPortal": "p", "iqn": "naa." + 32 * "a"}, {"targetPortal": "p", "iqn": iqn, "initiatorName": "x"}, {"targetPortal": "p" * 60, "iqn": iqn, "initiatorName": iqn},
    ):  # fmt: skip
        yield {"iscsi": iscsi}
    for cinder in (
        {},
        {"volumeID": "a", "secretRef": {}},
        {"volumeID": "a", "secretRef": {"name": "a", "namespace": "b"}},
    ):
        yield {"cinder": cinder}
    for channel in ({}, {"targetWWNs": ["a"]}, {"targetWWNs": ["a"], "lun": 256}, {"targetWWNs": ["a"], "wwids": ["b"], "lun": 1}, {"wwids": ["b"]}):  # fmt: skip
        yield {"fc": channel}
    for flex in ({}, {"driver": "a", "options": {"kubernetes.io/x": "a"}}, {"driver": "a", "options": {"x.K8s.io": "a"}}, {"driver": "a", "options": {"x": "a"}}):  # fmt: skip
        yield {"flexVolume": flex}
    for share in (
        {},
        {"secretName": "a", "shareName": "b", "secretNamespace": ""},
        {"secretName": "a", "shareName": "b"},
    ):
        yield {"azureFile": share}
    yield from (
        {"vsphereVolume": {}},
        {"vsphereVolume": {"volumePath": "a"}},
        {"portworxVolume": {}},
        {"portworxVolume": {"volumeID": "a"}},
    )
    yield from ({"photonPersistentDisk": {}}, {"photonPersistentDisk": {"pdID": "a"}})
    for azure in (
        {}, {"diskName": "a", "diskURI": "b"}, {"diskName": "a", "diskURI": "b", "kind": "Managed"}, {"diskName": "a", "diskURI": "https://b", "cachingMode": "x"},
        {"diskName": "a", "diskURI": "/subscriptions/b", "kind": "Managed"}, {"diskName": "a", "diskURI": "https://b", "kind": "x"},
    ):  # fmt: skip
        yield {"azureDisk": azure}
    for scale in ({}, {"gateway": "a", "system": "b", "volumeName": "c", "secretRef": {"name": "x"}}):
        yield {"scaleIO": scale}
    for local in ({}, {"path": "/x"}, {"path": "a/../b"}):
        yield {"local": local}
        yield {
            "local": local,
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
            },
        }
    yield {"local": {"path": "/x"}, "nodeAffinity": {"required": {"nodeSelectorTerms": []}}}
    zone = {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists"}
    yield {**HOST, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}}
    for system in (
        {},
        {"volumeName": "A", "volumeNamespace": "B"},
        {"volumeName": "a", "secretRef": {}},
        {"volumeName": "a"},
    ):
        yield {"storageos": system}
    for csi in (
        {}, {"driver": "a.b"}, {"driver": "x" * 64, "volumeHandle": "h"}, {"driver": "A.b", "volumeHandle": "h"}, {"driver": "_" * 70, "volumeHandle": "h"},
        {"driver": "a", "volumeHandle": "h", "controllerPublishSecretRef": {}, "nodeStageSecretRef": {}, "nodePublishSecretRef": {"name": "A", "namespace": "B"}},
        {"driver": "a", "volumeHandle": "h", "controllerExpandSecretRef": {"name": "a"}, "nodeExpandSecretRef": {"namespace": "b"}},
    ):  # fmt: skip
        yield {"csi": csi}
    for name in ("", "A b", "gold"):
        yield {**HOST, "volumeAttributesClassName": name}
        yield {"csi": {"driver": "a", "volumeHandle": "h"}, "volumeAttributesClassName": name}
    for more in (
        {"flexVolume": {}}, {"flexVolume": {"driver": "x"}, "csi": {}}, {"cephfs": {}}, {"csi": {}, "local": {}}, {"storageClassName": "A b"}, {"volumeMode": "x"}, {"volumeMode": "Block"},
        {"capacity": {"storage": "-1"}}, {"capacity": {"storage": "0"}}, {"capacity": {"storage": "1.5"}}, {"accessModes": []}, {"mountOptions": ["a"]}, {"claimRef": {}},
    ):  # fmt: skip
        yield {**HOST, **more}


def _claims() -> Iterator[Object]:
    yield from (
        {"dataSource": source}
        for source in (
            SELF,
            {"kind": "x", "name": "y"},
            {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": ""},
            {"apiGroup": "", **SELF},
        )
    )
    yield from (
        {"dataSourceRef": source}
        for source in (
            SELF,
            {"kind": "x", "name": "y"},
            {"apiGroup": "A b", "kind": "x", "name": "y"},
            {**SELF, "namespace": "b"},
            {**SELF, "namespace": ""},
        )
    )
    yield from (
        {"dataSource": SELF, "dataSourceRef": source}
        for source in (SELF, {**SELF, "name": "b"}, {**SELF, "apiGroup": "a.b"}, {**SELF, "namespace": "b"})
    )
    yield from ({"volumeAttributesClassName": name} for name in ("", "A b", "gold"))
    yield from ({"resources": {"requests": {"storage": size}}} for size in ("1500m", "0", "1n"))
    yield {"resources": {"requests": {"storage": "1"}, "limits": {"storage": "1500m"}}}
    yield {"selector": {"matchLabels": {"a b": "c"}}}


def _others() -> Iterator[tuple[str, str, Object]]:
    fields: Object
    spec: Object
    drivers: Any
    topologies: Any
    for topologies in (
        [{}], [{"matchLabelExpressions": [{"key": "a", "values": []}]}], [{"matchLabelExpressions": [{"key": "a b", "values": ["x", "x"]}]}],
        [{"matchLabelExpressions": [{"key": "a", "values": ["x"]}] * 2}], [{"matchLabelExpressions": [{"key": "a", "values": ["x"]}]}] * 2, [{}, {}],
    ):  # fmt: skip
        yield "storageclasses", "StorageClass", {"provisioner": "a", "allowedTopologies": topologies}
    old = {"key": "beta.kubernetes.io/os", "values": ["x"]}
    yield (
        "storageclasses",
        "StorageClass",
        {"provisioner": "a", "allowedTopologies": [{"matchLabelExpressions": [old]}]},
    )
    topology = {"matchExpressions": [{**old, "operator": "In"}], "matchLabels": {"beta.kubernetes.io/arch": "x"}}
    yield "csistoragecapacities", "CSIStorageCapacity", {"storageClassName": "a", "nodeTopology": topology}
    for fields in ({"reclaimPolicy": "x"}, {"reclaimPolicy": "Recycle"}, {"volumeBindingMode": ""}, {"parameters": {"": "x"}}, {"provisioner": "A/b"}, {"provisioner": "a b"}):  # fmt: skip
        yield "storageclasses", "StorageClass", {"provisioner": "a", **fields}
    for fields in (
        {},
        {"driverName": "a"},
        {"driverName": "a", "parameters": {"": ""}},
        {"driverName": "a b", "parameters": {"a": "b"}},
    ):
        yield "volumeattributesclasses", "VolumeAttributesClass", fields
    for inline in (
        {}, {"csi": {"driver": "a", "volumeHandle": "h"}}, {**BASE, "csi": {"driver": "a", "volumeHandle": "h"}, "claimRef": {"name": "a"}}, {**HOST, "persistentVolumeReclaimPolicy": "Delete"},
        {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "a", "volumeHandle": "h"}, "storageClassName": "a", "volumeMode": "Block", "nodeAffinity": {}},
        {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "a", "volumeHandle": "h"}, "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    ):  # fmt: skip
        yield (
            "volumeattachments",
            "VolumeAttachment",
            {"spec": {"attacher": "a", "nodeName": "n", "source": {"inlineVolumeSpec": inline}}},
        )
    for spec in (
        {},
        {"attacher": "A" * 70, "nodeName": "A b", "source": {"persistentVolumeName": ""}},
        {"attacher": "a b", "nodeName": "", "source": {"persistentVolumeName": "a"}},
    ):
        yield "volumeattachments", "VolumeAttachment", {"spec": spec}
    for drivers in (
        [{}], [{"name": "a", "nodeID": "x" * 257}], [{"name": "a", "nodeID": "x" * 256}], [{"name": "a", "nodeID": "x", "topologyKeys": ["", "a", "a", "a b"]}], [{"name": "a", "nodeID": "x"}] * 2,
        [{"name": "a", "nodeID": "x", "allocatable": {"count": -1}}], [{"name": "a", "nodeID": "x", "allocatable": {}}], [{"name": "A b" * 30, "nodeID": "x"}], [],
    ):  # fmt: skip
        yield "csinodes", "CSINode", {"spec": {"drivers": drivers}}
    for spec in (
        {"preventPodSchedulingIfMissing": True}, {"fsGroupPolicy": "x"}, {"volumeLifecycleModes": ["x", "Ephemeral"]}, {"nodeAllocatableUpdatePeriodSeconds": 9}, {"nodeAllocatableUpdatePeriodSeconds": 10},
        {"tokenRequests": [{"audience": ""}, {"audience": ""}]}, {"tokenRequests": [{"audience": "a", "expirationSeconds": 599}]}, {"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": False},
        {"tokenRequests": [], "serviceAccountTokenInSecrets": False}, {"tokenRequests": [{"audience": "a", "expirationSeconds": 4294967297}]},
    ):  # fmt: skip
        yield "csidrivers", "CSIDriver", {"spec": spec}
    for fields in (
        {}, {"storageClassName": "A b"}, {"storageClassName": "a", "capacity": "1n"}, {"storageClassName": "a", "capacity": "-1"}, {"storageClassName": "a", "capacity": "x"}, {"storageClassName": "a", "capacity": 1.5},
        {"storageClassName": "a", "maximumVolumeSize": "-1"}, {"storageClassName": "a", "nodeTopology": {"matchExpressions": [{"key": "a", "operator": "x"}]}},
    ):  # fmt: skip
        yield "csistoragecapacities", "CSIStorageCapacity", fields


def _patched(path: str, *bodies: Object) -> Iterator[Ask]:
    for body in bodies:
        yield Ask("PATCH", path, body, {"Content-Type": MERGE})


def _volume_changes() -> Iterator[Ask]:
    spec = {**BASE, "csi": {"driver": "a", "volumeHandle": "h"}}
    yield Ask("POST", VOLUMES, {"metadata": {"name": "changing"}, "spec": spec})
    changes: tuple[Object, ...] = (
        {"csi": {"controllerExpandSecretRef": {"name": "a", "namespace": "b"}}}, {"csi": {"controllerExpandSecretRef": {"name": "c"}}}, {"csi": {"fsType": "x"}}, {"volumeMode": "Block"},
        {"volumeAttributesClassName": "gold"}, {"volumeAttributesClassName": None}, {"volumeAttributesClassName": "silver"}, {"capacity": {"storage": "2Gi"}}, {"storageClassName": "other"},
        {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}, {"nodeAffinity": None}, {"persistentVolumeReclaimPolicy": "Recycle"},
    )  # fmt: skip
    yield from _patched(f"{VOLUMES}/changing", *({"spec": change} for change in changes))
    yield from _patched(
        f"{VOLUMES}/changing/status", {"status": {"phase": "Bound"}}, {"status": {"phase": "Bound", "message": "x"}}
    )


def _claim_changes() -> Iterator[Ask]:
    path = f"{CLAIMS}/changing"
    yield Ask("POST", CLAIMS, {"metadata": {"name": "changing"}, "spec": {**CLAIM, "dataSource": SELF}})
    yield Ask(
        "PUT",
        path,
        {"metadata": {"name": "changing"}, "spec": {**CLAIM, "dataSource": SELF, "storageClassName": "simulated"}},
    )
    yield from _patched(
        path,
        {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        {"spec": {"volumeName": "v"}},
        {"spec": {"volumeName": "w"}},
    )
    yield from _patched(
        path,
        {"spec": {"dataSource": {"name": "b"}}},
        {"spec": {"volumeMode": "Block"}},
        {"spec": {"volumeAttributesClassName": "gold"}},
    )
    yield from _patched(
        f"{path}/status",
        {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "currentVolumeAttributesClassName": "gold"}},
    )
    yield from _patched(
        path,
        {"spec": {"volumeAttributesClassName": "gold"}},
        {"spec": {"volumeAttributesClassName": ""}},
        {"spec": {"volumeAttributesClassName": None}},
    )
    yield from _patched(
        path, *({"spec": {"resources": {"requests": {"storage": size}}}} for size in ("3Gi", "2Gi", "1Gi", "512Mi"))
    )
    yield from _patched(path, {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}})
    yield from _patched(
        f"{path}/status",
        {"status": {"capacity": {"storage": "-1"}}},
        {"status": {"allocatedResourceStatuses": {"storage": "x"}}},
        {"status": {"allocatedResources": {"x": "1"}}},
    )


def _driver_changes() -> Iterator[Ask]:
    path = f"{ROOT}/csidrivers/changing"
    yield Ask(
        "POST", f"{ROOT}/csidrivers", {"metadata": {"name": "changing"}, "spec": {"tokenRequests": [{"audience": "a"}]}}
    )
    changes: tuple[Object, ...] = (
        {"requiresRepublish": True}, {"preventPodSchedulingIfMissing": True}, {"attachRequired": False}, {"volumeLifecycleModes": ["Ephemeral"]}, {"tokenRequests": [{"audience": "b"}]},
        {"serviceAccountTokenInSecrets": True}, {"tokenRequests": []}, {"podInfoOnMount": True},
    )  # fmt: skip
    yield from _patched(path, *({"spec": change} for change in changes), {"metadata": {"labels": {"a": "b"}}})


def _attachment_changes() -> Iterator[Ask]:
    path, source = f"{ROOT}/volumeattachments/changing", {"persistentVolumeName": "v"}
    yield Ask(
        "POST",
        f"{ROOT}/volumeattachments",
        {"metadata": {"name": "changing"}, "spec": {"attacher": "a", "nodeName": "n", "source": source}},
    )
    yield from _patched(path, {"spec": {"nodeName": "m"}}, {"metadata": {"labels": {"a": "b"}}})
    for status in (
        {"attached": True},
        {"attachError": {"message": "x" * 1025}},
        {"detachError": {"message": "x", "errorCode": -1}},
        {"attachError": {"message": "x", "errorCode": 1}},
    ):
        yield from _patched(f"{path}/status", {"status": status})
