"""Evaluates admission policies for a write: denials, warnings, audit annotations and mutations.
`admission.policy_source` selects and orders the policies; `kinds.policies` evaluates one.

A long evaluation yields to the event loop between expressions, because the server has one thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from shoal.apiserver.admission.parameters import Misconfigured, param_resource, parameters
from shoal.apiserver.admission.question import Question
from shoal.apiserver.admission.shown import Form
from shoal.apiserver.policies.configurations import Aim, Concerned
from shoal.apiserver.registry import Resource
from shoal.clock import Clock
from shoal.kinds.policies import Undecided
from shoal.objects.errors import Cause, Forbidden, Invalid, StatusError, TooLarge, Unauthorized

if TYPE_CHECKING:
    from shoal.kinds.policies.evaluation import Inputs
    from shoal.kinds.policies.reading import Binding, Policy
    from shoal.kinds.policies.validating import Denial, Verdict

Object = dict[str, Any]

LONG = 0.01
"""Seconds one write may block the event loop."""
FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_REASONS: dict[str, type[StatusError]] = {
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
    "RequestEntityTooLarge": TooLarge,
}


class _Asked(NamedTuple):
    binding: Binding
    shown: Resource
    params: list[Object | None]


class _Broken(NamedTuple):
    """A policy or binding that cannot be evaluated."""

    binding: Binding | None
    said: str


async def validate(
    question: Question, policies: tuple[Concerned, ...], new: Object | None, old: Object | None, form: Form
) -> None:
    """Raises the first denial. Further denials only reach the audit log."""
    refusals: list[tuple[Policy, Binding | None, str, str]] = []
    for concerned in policies:
        policy = concerned.policy
        annotations: dict[str, list[str]] = {}
        for asked in await _asked(question, concerned, new, old, form):
            if isinstance(asked, _Broken):
                if not policy.fails_open:
                    refusals.append((policy, asked.binding, asked.said, ""))
                continue
            for params in asked.params:
                verdict = await _verdict(question, policy, asked.shown, params, new, old, form)
                refusals += [
                    (policy, asked.binding, *said) for said in _acted(question, policy, asked.binding, verdict)
                ]
                for key, value in verdict.annotations:
                    if value not in annotations.setdefault(key, []):
                        annotations[key].append(value)
        for key, values in annotations.items():
            question.annotate(f"{policy.name}/{key}", ", ".join(values))
    if refusals:
        raise _refused(question, new, old, *refusals[0])


async def _verdict(
    question: Question,
    policy: Policy,
    shown: Resource,
    params: Object | None,
    new: Object | None,
    old: Object | None,
    form: Form,
) -> Verdict:
    from shoal.kinds.policies.validating import Verdict, validated  # noqa: PLC0415 - see `policies.configurations`

    verdict = Verdict()
    inputs = await _inputs(question, shown, params, new, old, form)
    pace = _Pace(question.core.clock)
    for _ in validated(policy, inputs, verdict):
        await pace.kept()
    return verdict


def _acted(question: Question, policy: Policy, binding: Binding, verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yields message and reason of each denial. Applies the Audit and Warn actions."""
    for denial in verdict.denials:
        if "Deny" in binding.actions:
            yield denial.message, denial.reason
        if "Audit" in binding.actions:
            _record(question, policy, binding, denial)
        if "Warn" in binding.actions:
            who = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            question.call.warnings.append(f"Validation failed for {who}: {denial.message}")
    for said in verdict.failures:
        yield said, ""


def _record(question: Question, policy: Policy, binding: Binding, denial: Denial) -> None:
    if FAILURE in (question.call.annotations or {}):
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
    question.annotate(FAILURE, text)


def _refused(
    question: Question,
    new: Object | None,
    old: Object | None,
    policy: Policy,
    binding: Binding | None,
    said: str,
    reason: str,
) -> StatusError:
    by = f" with binding '{binding.name}'" if binding is not None else ""
    message = f"ValidatingAdmissionPolicy '{policy.name}'{by} denied request: {said}"
    resource, name = question.call.resource, _name(question, new, old)
    return _REASONS.get(reason, Invalid)(
        f'{resource.group_resource} "{name}" is forbidden: {message}',
        name=name,
        group=resource.group,
        kind=resource.plural,
        causes=[Cause("", message)],
    )


def _name(question: Question, new: Object | None, old: Object | None) -> str:
    """The object's name in errors: it may have none yet."""
    metadata = (new or {}).get("metadata") or {}
    return question.name(new, old) or metadata.get("name") or metadata.get("generateName") or "Unknown"


class Mutating:
    """The mutating policies of one write. The second round is for policies with reinvocation."""

    def __init__(self, question: Question, policies: tuple[Concerned, ...]) -> None:
        self._question, self._policies = question, policies
        self._again: set[tuple[str, str, str]] = set()

    async def round(self, new: Object | None, old: Object | None, form: Form, turn: int) -> tuple[Object | None, bool]:
        """Returns the mutated object and whether it changed."""
        if new is None:
            return new, False
        changed = False
        refusals: list[tuple[str, str]] = []
        # Matching uses the object as it came: a mutation by one policy does not exclude the next.
        invocations = [
            (concerned.policy, asked)
            for concerned in self._policies
            for asked in await _asked(self._question, concerned, new, old, form)
        ]
        for policy, asked in invocations:
            if isinstance(asked, _Broken):
                if not policy.fails_open:
                    refusals.append((_denied(policy, asked.binding, asked.said), ""))
                continue
            for params in asked.params:
                metadata = (params or {}).get("metadata") or {}
                key = policy.name, asked.binding.name, f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
                if turn and key not in self._again:
                    continue
                made, wrong = await self._applied(policy, asked.shown, params, new, old, form, key)
                if not policy.fails_open:
                    refusals += [(_denied(policy, asked.binding, said), "Invalid") for said in wrong]
                if made is not None:
                    new, changed = made, True
        if refusals:
            raise self._refusal(new, old, refusals)
        return new, changed

    async def _applied(
        self,
        policy: Policy,
        shown: Resource,
        params: Object | None,
        new: Object,
        old: Object | None,
        form: Form,
        key: tuple[str, str, str],
    ) -> tuple[Object | None, list[str]]:
        """Returns the object after all mutations of the policy (None if unchanged) and the errors of failed
        mutations.
        """
        from shoal.kinds.policies.evaluation import conditions_met  # noqa: PLC0415
        from shoal.kinds.policies.mutating import Failed, mutated  # noqa: PLC0415

        question, compiled = self._question, policy.compiled
        inputs = await _inputs(question, shown, params, new, old, form)
        try:
            if not conditions_met(compiled.conditions, inputs, compiled.variables):
                return None, []
        except Undecided as error:
            return None, [] if policy.fails_open else [str(error)]
        if policy.reinvoked:
            self._again.add(key)
        assert inputs.object is not None
        first = seen = inputs.object
        wrong: list[str] = []
        pace = _Pace(question.core.clock)
        for kind, expression in compiled.mutations:
            await pace.kept()
            try:
                root = shown.model().types.root if form.typed else None
                made = mutated(kind, expression, compiled.variables, inputs._replace(object=seen), root)
            except Failed as error:
                wrong.append(str(error))
                continue
            if made is not None:
                # A copy: pruning and defaulting must not change the previous object.
                made = orjson.loads(orjson.dumps(made))
                who = f"MutatingAdmissionPolicy '{policy.name}'"
                question.settled(shown, made, who, seen, form, strict=kind == "JSONPatch")
                seen = made
        if seen is first or seen == first:
            return None, wrong
        return form.take(new, await question.converted(question.call.resource, seen, form)), wrong

    def _refusal(self, new: Object | None, old: Object | None, refusals: list[tuple[str, str]]) -> StatusError:
        resource = self._question.call.resource
        message, reason = refusals[0]
        return Forbidden(
            message,
            name=_name(self._question, new, old),
            group=resource.group,
            kind=resource.plural,
            causes=[Cause("", said) for said, _ in refusals],
            reason=reason,
        )


def _denied(policy: Policy, binding: Binding | None, said: str) -> str:
    if binding is None:
        return f'policy "{policy.name}" denied request: {said}'
    return f"policy '{policy.name}' with binding '{binding.name}' denied request: {said}"


async def _asked(
    question: Question, concerned: Concerned, new: Object | None, old: Object | None, form: Form
) -> list[_Asked | _Broken]:
    """The bindings that match the write, each with its parameters. None stands for no parameter."""
    policy, core, call = concerned.policy, question.core, question.call
    if new is not None:
        new = form.show(new)
    shown = _meant(question, concerned.aim, new, old)
    if shown is None:
        return []
    kind: Resource | None = None
    if policy.param_kind is not None:
        try:
            kind = param_resource(core.clusters.registry(call.cluster), policy.param_kind)
        except Misconfigured as error:
            return [_Broken(None, f"failed to configure policy: {error}")]
    found: list[_Asked | _Broken] = []
    namespace = question.namespace(question.name(new, old))
    for binding, aim in concerned.bindings:
        if aim is not None and _meant(question, aim, new, old) is None:
            continue
        params: list[Object | None] = [None]
        if kind is not None and binding.params is not None:
            try:
                params = [*await parameters(core, call.target.cluster, kind, binding.params, namespace)]
            except Misconfigured as error:
                found.append(_Broken(binding, f"failed to configure binding: {error}"))
                continue
        found.append(_Asked(binding, shown, params))
    return found


def _meant(question: Question, aim: Aim, new: Object | None, old: Object | None) -> Resource | None:
    if not question.selected(aim.match.namespaces, aim.match.objects, new, old):
        return None
    return aim.shown(question.name(new, old))


async def _inputs(
    question: Question, shown: Resource, params: Object | None, new: Object | None, old: Object | None, form: Form
) -> Inputs:
    from shoal.kinds.policies.evaluation import Inputs  # noqa: PLC0415

    seen, before = await question.seen(shown, new, form), await question.seen(shown, old, form)
    request, namespace = question.request(shown, seen, before), question.namespace_object
    return Inputs(seen, before, request, namespace, question.ask, params)


class _Pace:
    """Yields during a long evaluation: other requests get as much time as it took."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()

    async def kept(self) -> None:
        took = self._clock.monotonic() - self._began
        if took > LONG:
            await asyncio.sleep(took)
            self._began = self._clock.monotonic()
