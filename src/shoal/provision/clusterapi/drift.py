"""Drift of a Machine from its MachineDeployment or templates. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.kinds import capi
from shoal.objects.conditions import get_condition
from shoal.provision.clusterapi.sellers import selected

Object = dict[str, Any]

NOT_UP_TO_DATE, UPDATING = "MachineNotUpToDate", "Updating"
DEPLOYMENT_GONE, NOT_SELECTED = "MachineDeploymentGone", "MachineDeploymentNotSelected"
TEMPLATE_GONE, TEMPLATE_CHANGED = "MachineTemplateGone", "MachineTemplateChanged"


def of_deployment(machine: Object, deployment: Object | None, sets: Iterable[Object], node_class: Object | None) -> str:
    """Returns the drift reason, or empty. `deployment`: None if it is no longer a member."""
    if deployment is None:
        return DEPLOYMENT_GONE
    if node_class is not None and not selected(deployment, node_class):
        return NOT_SELECTED
    condition = get_condition(machine, "UpToDate") or {}
    if condition.get("status") == "False":
        return "" if condition.get("reason") == UPDATING else NOT_UP_TO_DATE
    if condition.get("status") == "True":
        return ""
    newest = max(sets, key=_revision, default=None)
    if newest is None:
        return ""
    wanted, has = (capi.labels_of(each).get(capi.TEMPLATE_HASH, "") for each in (newest, machine))
    return NOT_UP_TO_DATE if wanted and has and wanted != has else ""


def of_template(made_from: str, now: str | None) -> str:
    """Compares the template hash of the Machine with the current one; None: the template was deleted."""
    if now is None:
        return TEMPLATE_GONE
    return TEMPLATE_CHANGED if made_from != now else ""


def _revision(machine_set: Object) -> tuple[int, str]:
    said = capi.annotations_of(machine_set).get(capi.REVISION, "")
    return int(said) if said.isdecimal() else 0, machine_set["metadata"].get("creationTimestamp", "")
