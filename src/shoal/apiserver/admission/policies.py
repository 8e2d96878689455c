"""Evaluates admission policies for a write: denials, warnings, audit annotations and mutations.
`registry.policy_source` selects and orders the policies; `kinds.admissionregistration.policies` evaluates one.

Long compilations and evaluations run in slices (`flowcontrol.slices`), because the server has one event loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from shoal.apiserver.admission.attributes import AdmissionAttributes
from shoal.apiserver.admission.parameters import ConfigurationError, find_parameters, param_resource
from shoal.apiserver.admission.projection import Projection
from shoal.apiserver.flowcontrol.sliced_call import SlicedFunc
from shoal.apiserver.registry.policy_source import MatchedPolicy, MatchedRules
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.server import slice_path
from shoal.kinds.admissionregistration.policies import MatchError
from shoal.objects.errors import Cause, Forbidden, Invalid, StatusError, TooLarge, Unauthorized

if TYPE_CHECKING:
    from shoal.kinds.admissionregistration.policies.compilation import AdmissionPolicy, PolicyBinding
    from shoal.kinds.admissionregistration.policies.evaluation import EvaluationInputs
    from shoal.kinds.admissionregistration.policies.validating import PolicyDecision, PolicyDenial

Object = dict[str, Any]
T = TypeVar("T")

VALIDATION_FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"
_REASONS: dict[str, type[StatusError]] = {
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
    "RequestEntityTooLarge": TooLarge,
}


class _BoundPolicy(NamedTuple):
    binding: PolicyBinding
    resource: Resource
    params: list[Object | None]


class _MisconfiguredPolicy(NamedTuple):
    """A policy or binding that cannot be evaluated."""

    binding: PolicyBinding | None
    message: str


async def validate_policies(
    attributes: AdmissionAttributes,
    policies: tuple[MatchedPolicy, ...],
    new: Object | None,
    old: Object | None,
    projection: Projection,
) -> None:
    """Raises the first denial. Further denials only reach the audit log."""
    refusals: list[tuple[AdmissionPolicy, PolicyBinding | None, str, str]] = []
    for matched in policies:
        policy = matched.policy
        annotations: dict[str, list[str]] = {}
        for invocation in await _bound_policies(attributes, matched, new, old, projection):
            if isinstance(invocation, _MisconfiguredPolicy):
                if not policy.fails_open:
                    refusals.append((policy, invocation.binding, invocation.message, ""))
                continue
            for params in invocation.params:
                decision = await _evaluate(attributes, policy, invocation.resource, params, new, old, projection)
                refusals += [
                    (policy, invocation.binding, *denial)
                    for denial in _apply_actions(attributes, policy, invocation.binding, decision)
                ]
                for key, value in decision.audit_annotations:
                    if value not in annotations.setdefault(key, []):
                        annotations[key].append(value)
        for key, values in annotations.items():
            attributes.annotate(f"{policy.name}/{key}", ", ".join(values))
    if refusals:
        raise _denied_error(attributes, new, old, *refusals[0])


async def _evaluate(
    attributes: AdmissionAttributes,
    policy: AdmissionPolicy,
    resource: Resource,
    params: Object | None,
    new: Object | None,
    old: Object | None,
    projection: Projection,
) -> PolicyDecision:
    from shoal.kinds.admissionregistration.policies.validating import evaluate_policy  # noqa: PLC0415 - CEL is imported only for clusters with policies

    slices, path = attributes.server.slices, slice_path(attributes.ctx)
    await slices.complete(path, policy.expressions.compile())
    inputs = await _inputs(attributes, resource, params, new, old, projection)
    return await slices.call(path, _with_pause(partial(evaluate_policy, policy), inputs))


def _with_pause(evaluate: Callable[[EvaluationInputs], T], inputs: EvaluationInputs) -> SlicedFunc[T]:
    return lambda pause: evaluate(inputs._replace(pause=pause))


def _apply_actions(
    attributes: AdmissionAttributes, policy: AdmissionPolicy, binding: PolicyBinding, decision: PolicyDecision
) -> Iterator[tuple[str, str]]:
    """Yields message and reason of each denial. Applies the Audit and Warn actions."""
    for denial in decision.denials:
        if "Deny" in binding.actions:
            yield denial.message, denial.reason
        if "Audit" in binding.actions:
            _record_audit(attributes, policy, binding, denial)
        if "Warn" in binding.actions:
            policy_text = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            attributes.ctx.warnings.append(f"Validation failed for {policy_text}: {denial.message}")
    for failure in decision.audit_annotation_errors:
        yield failure, ""


def _record_audit(
    attributes: AdmissionAttributes, policy: AdmissionPolicy, binding: PolicyBinding, denial: PolicyDenial
) -> None:
    if VALIDATION_FAILURE_KEY in (attributes.ctx.audit_annotations or {}):
        return  # there is one annotation, and the first failure keeps it
    failure = {
        "message": denial.message,
        "policy": policy.name,
        "binding": binding.name,
        "expressionIndex": denial.index,
        "validationActions": list(binding.actions),
    }
    text = json.dumps([failure], separators=(",", ":"), ensure_ascii=False)
    for char, escape in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, escape)
    attributes.annotate(VALIDATION_FAILURE_KEY, text)


def _denied_error(
    attributes: AdmissionAttributes,
    new: Object | None,
    old: Object | None,
    policy: AdmissionPolicy,
    binding: PolicyBinding | None,
    detail: str,
    reason: str,
) -> StatusError:
    by = f" with binding '{binding.name}'" if binding is not None else ""
    message = f"ValidatingAdmissionPolicy '{policy.name}'{by} denied request: {detail}"
    resource, name = attributes.ctx.resource, _object_name(attributes, new, old)
    return _REASONS.get(reason, Invalid)(
        f'{resource.group_resource} "{name}" is forbidden: {message}',
        name=name,
        group=resource.group,
        kind=resource.plural,
        causes=[Cause("", message)],
    )


def _object_name(attributes: AdmissionAttributes, new: Object | None, old: Object | None) -> str:
    """The object's name in errors: it may have none yet."""
    metadata = (new or {}).get("metadata") or {}
    return attributes.name(new, old) or metadata.get("name") or metadata.get("generateName") or "Unknown"


class MutatingPolicies:
    """The mutating policies of one write. The second round is for policies with reinvocation."""

    def __init__(self, attributes: AdmissionAttributes, policies: tuple[MatchedPolicy, ...]) -> None:
        self._question, self._policies = attributes, policies
        self._reinvocable: set[tuple[str, str, str]] = set()

    async def run_round(
        self, new: Object | None, old: Object | None, projection: Projection, round_index: int
    ) -> tuple[Object | None, bool]:
        """Returns the mutated object and whether it changed."""
        if new is None:
            return new, False
        changed = False
        refusals: list[tuple[str, str]] = []
        # Matching uses the object as it came: a mutation by one policy does not exclude the next.
        invocations = [
            (matched.policy, invocation)
            for matched in self._policies
            for invocation in await _bound_policies(self._question, matched, new, old, projection)
        ]
        for policy, invocation in invocations:
            if isinstance(invocation, _MisconfiguredPolicy):
                if not policy.fails_open:
                    refusals.append((_denial_message(policy, invocation.binding, invocation.message), ""))
                continue
            for params in invocation.params:
                metadata = (params or {}).get("metadata") or {}
                key = (
                    policy.name,
                    invocation.binding.name,
                    f"{metadata.get('namespace', '')}/{metadata.get('name', '')}",
                )
                if round_index and key not in self._reinvocable:
                    continue
                mutated_object, errors = await self._apply_policy(
                    policy, invocation.resource, params, new, old, projection=projection, key=key
                )
                if not policy.fails_open:
                    refusals += [(_denial_message(policy, invocation.binding, error), "Invalid") for error in errors]
                if mutated_object is not None:
                    new, changed = mutated_object, True
        if refusals:
            raise self._denied_error(new, old, refusals)
        return new, changed

    async def _apply_policy(
        self,
        policy: AdmissionPolicy,
        resource: Resource,
        params: Object | None,
        new: Object,
        old: Object | None,
        *,
        projection: Projection,
        key: tuple[str, str, str],
    ) -> tuple[Object | None, list[str]]:
        """Returns the object after all mutations of the policy (None if unchanged) and the errors of failed
        mutations.
        """
        from shoal.kinds.admissionregistration.policies.evaluation import all_conditions_met  # noqa: PLC0415
        from shoal.kinds.admissionregistration.policies.mutating import MutationError, apply_mutation  # noqa: PLC0415

        question = self._question
        slices, path = question.server.slices, slice_path(question.ctx)
        await slices.complete(path, policy.expressions.compile())
        compiled = policy.expressions.compiled
        inputs = await _inputs(question, resource, params, new, old, projection)
        try:
            conditions_met = partial(all_conditions_met, compiled.match_conditions, compiled.variables)
            if not await slices.call(path, _with_pause(conditions_met, inputs)):
                return None, []
        except MatchError as error:
            return None, [] if policy.fails_open else [str(error)]
        if policy.reinvoke_if_needed:
            self._reinvocable.add(key)
        assert inputs.new_object is not None
        first = current = inputs.new_object
        errors: list[str] = []
        for kind, expression in compiled.mutations:
            root = resource.kind_schema().types.root if projection.typed else None
            mutation = partial(apply_mutation, kind, expression, compiled.variables, root)
            try:
                changed = await slices.call(path, _with_pause(mutation, inputs._replace(new_object=current)))
            except MutationError as error:
                errors.append(str(error))
                continue
            if changed is not None:
                # A copy: pruning and defaulting must not change the previous object.
                changed = orjson.loads(orjson.dumps(changed))
                policy_text = f"MutatingAdmissionPolicy '{policy.name}'"
                question.decode_patched(resource, changed, policy_text, current, projection, strict=kind == "JSONPatch")
                current = changed
        if current is first or current == first:
            return None, errors
        return projection.merge_back(
            new, await question.convert_object(question.ctx.resource, current, projection)
        ), errors

    def _denied_error(self, new: Object | None, old: Object | None, refusals: list[tuple[str, str]]) -> StatusError:
        resource = self._question.ctx.resource
        message, reason = refusals[0]
        return Forbidden(
            message,
            name=_object_name(self._question, new, old),
            group=resource.group,
            kind=resource.plural,
            causes=[Cause("", said) for said, _ in refusals],
            reason=reason,
        )


def _denial_message(policy: AdmissionPolicy, binding: PolicyBinding | None, detail: str) -> str:
    if binding is None:
        return f'policy "{policy.name}" denied request: {detail}'
    return f"policy '{policy.name}' with binding '{binding.name}' denied request: {detail}"


async def _bound_policies(
    attributes: AdmissionAttributes,
    matched: MatchedPolicy,
    new: Object | None,
    old: Object | None,
    projection: Projection,
) -> list[_BoundPolicy | _MisconfiguredPolicy]:
    """The bindings that match the write, each with its parameters. None stands for no parameter."""
    policy, core, call = matched.policy, attributes.server, attributes.ctx
    if new is not None:
        new = projection.project(new)
    resource = _matched_resource(attributes, matched.rules, new, old)
    if resource is None:
        return []
    param_kind: Resource | None = None
    if policy.param_kind is not None:
        try:
            param_kind = param_resource(core.clusters.registry(call.cluster), policy.param_kind)
        except ConfigurationError as error:
            return [_MisconfiguredPolicy(None, f"failed to configure policy: {error}")]
    invocations: list[_BoundPolicy | _MisconfiguredPolicy] = []
    namespace = attributes.request_namespace(attributes.name(new, old))
    for binding, rules in matched.bindings:
        if rules is not None and _matched_resource(attributes, rules, new, old) is None:
            continue
        params: list[Object | None] = [None]
        if param_kind is not None and binding.param_ref is not None:
            try:
                params = [*await find_parameters(core, call.info.cluster, param_kind, binding.param_ref, namespace)]
            except ConfigurationError as error:
                invocations.append(_MisconfiguredPolicy(binding, f"failed to configure binding: {error}"))
                continue
        invocations.append(_BoundPolicy(binding, resource, params))
    return invocations


def _matched_resource(
    attributes: AdmissionAttributes, rules: MatchedRules, new: Object | None, old: Object | None
) -> Resource | None:
    if not attributes.matches_selectors(rules.match.namespace_selector, rules.match.object_selector, new, old):
        return None
    return rules.resource_for(attributes.name(new, old))


async def _inputs(
    attributes: AdmissionAttributes,
    resource: Resource,
    params: Object | None,
    new: Object | None,
    old: Object | None,
    projection: Projection,
) -> EvaluationInputs:
    from shoal.kinds.admissionregistration.policies.evaluation import EvaluationInputs  # noqa: PLC0415

    new_object, old_object = (
        await attributes.versioned_object(resource, new, projection),
        await attributes.versioned_object(resource, old, projection),
    )
    request, namespace = attributes.admission_request(resource, new_object, old_object), attributes.namespace_object
    return EvaluationInputs(new_object, old_object, request, namespace, attributes.cel_authorizer, params)
