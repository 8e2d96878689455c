"""Explains why a pod gets no node, as specifically as one check of the pools and their types allows. Pure."""

from __future__ import annotations

from typing import Any

from shoal.fit.requirements import Requirements
from shoal.fit.resources import quantities
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import weight
from shoal.provision.simulation.asking import Asking, required
from shoal.provision.simulation.groups import EVERY
from shoal.provision.simulation.model import NODES, Pool
from shoal.provision.simulation.rounds import Round
from shoal.provision.simulation.templates import Template

Object = dict[str, Any]


class Reasons:
    def __init__(self, round_: Round) -> None:
        self._round = round_
        self._known: dict[int, str] = {}

    def why(self, asking: Asking) -> str:
        known = self._known.get(id(asking))
        if known is None:
            pools = sorted(self._round.question.pools, key=lambda each: (-weight(each.pool), each.name))
            said = [f'incompatible with nodepool "{pool.name}", {self._reason(asking, pool)}' for pool in pools]
            known = self._known[id(asking)] = "; ".join(said) or "there is no NodePool that is ready"
        return known

    def _reason(self, asking: Asking, pool: Pool) -> str:
        mine = [template for template in self._round.templates if template.pool is pool]
        if not mine:
            return "it has no instance types"
        said = [self._against(asking, template) for template in mine]
        return max(said)[1]

    def _against(self, asking: Asking, template: Template) -> tuple[int, str]:
        """Returns how many checks passed, and the reason of the first failure."""
        wishes = asking.steps[-1]
        taint = untolerated(template.taints, wishes.tolerations, EVERY)
        if taint is not None:
            return 1, f"did not tolerate taint {taint_text(taint)}"
        if not template.types or not template.all:
            return 0, "no instance type that can be had satisfies its requirements"
        if any(template.values(key, template.all) < least for key, least in template.least):
            return 0, "its instance types do not have the variety that minValues asks for"
        wanted = required(asking.selector, wishes)
        state = template.base.after(wanted)
        if state is None:
            return 2, f"incompatible requirements, {_conflict(template, wanted)}"
        with_volumes = [state.after(each) for each in asking.volumes] if asking.volumes else [state]
        states = [each for each in with_volumes if each is not None]
        if not states:
            return 3, "incompatible with the zones of its volumes"
        asked = ", ".join(f"{key}={value}" for key, value in sorted(quantities(asking.requests).items()))
        suiting = [each.mask & template.all for each in states]
        if not any(suiting):
            return 4, f"no instance type that can be had meets all requirements, {wanted}"
        holding = template.space.holding(asking.requests, {})
        holding &= ~template.clashing(asking.ports) if asking.ports else -1
        if not any(each & holding for each in suiting):
            return 5, f"no instance type has enough resources for {asked}"
        left = self._round.left[template.name]
        if left.get(NODES, 1) <= 0:
            return 6, f'node limits have been exhausted for nodepool: "{template.name}"'
        within = template.capacity.within(left)
        if not any(each & holding & within for each in suiting):
            return 6, f'all available instance types exceed limits for nodepool: "{template.name}"'
        shape = self._round.shapes.first(asking)
        groups = sorted({f"{group.kind} by {group.key}" for group in shape.owned})
        if groups or self._opposed(asking):
            return 7, f"unsatisfiable topology constraint: {', '.join(groups) or 'pod anti-affinity of other pods'}"
        if template.least:
            return 7, "its instance types do not have the variety that minValues asks for"
        return 7, f"no instance type with room left has {asked}"

    def _opposed(self, asking: Asking) -> bool:
        return any(group.selects(asking.namespace, asking.labels) for group in self._round.topology.inverse)


def _conflict(template: Template, wanted: Requirements) -> str:
    return "; ".join(template.requirements.conflicts(wanted, template.undefined))


def taint_text(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
