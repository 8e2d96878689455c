"""Drift of a Machine from its MachineDeployment or templates. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.kinds.clusterapi import capi
from shoal.objects.conditions import get_condition
from shoal.provision.clusterapi.nodegroups import is_selected

Object = dict[str, Any]

NOT_UP_TO_DATE, UPDATING = "MachineNotUpToDate", "Updating"
DEPLOYMENT_GONE, NOT_SELECTED = "MachineDeploymentGone", "MachineDeploymentNotSelected"
TEMPLATE_GONE, TEMPLATE_CHANGED = "MachineTemplateGone", "MachineTemplateChanged"


def deployment_drift(
    machine: Object, deployment: Object | None, sets: Iterable[Object], node_class: Object | None
) -> str:
    """Returns the drift reason, or empty. `deployment`: None if it is no longer a member."""
    if deployment is None:
        return DEPLOYMENT_GONE
    if node_class is not None and not is_selected(deployment, node_class):
        return NOT_SELECTED
    condition = get_condition(machine, "UpToDate") or {}
    if condition.get("status") == "False":
        return "" if condition.get("reason") == UPDATING else NOT_UP_TO_DATE
    if condition.get("status") == "True":
        return ""
    newest = max(sets, key=_revision, default=None)
    if newest is None:
        return ""
    newest_hash, machine_hash = (capi.labels_of(each).get(capi.TEMPLATE_HASH, "") for each in (newest, machine))
    return NOT_UP_TO_DATE if newest_hash and machine_hash and newest_hash != machine_hash else ""


def template_drift(machine_hash: str, template_hash: str | None) -> str:
    """Compares the template hash of the Machine with the current one; None: the template was deleted."""
    if template_hash is None:
        return TEMPLATE_GONE
    return TEMPLATE_CHANGED if machine_hash != template_hash else ""


def _revision(machine_set: Object) -> tuple[int, str]:
    revision = capi.annotations_of(machine_set).get(capi.REVISION, "")
    return int(revision) if revision.isdecimal() else 0, machine_set["metadata"].get("creationTimestamp", "")
