"""Dispatches a write to admission webhooks and policies: mutating ones in order, with reinvocation, then validating
ones in parallel. Policies of each sort run before the webhooks. Responses have upstream's meaning.

`dispatcher_for` returns None for a write that no webhook and no policy matches. The verbs call the rest for the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import orjson

from shoal.apiserver.admission.policies import Mutating, validate
from shoal.apiserver.admission.question import Question, internal, kind_of
from shoal.apiserver.admission.shown import BODY, WHOLE, Form
from shoal.apiserver.authn import LOOPS
from shoal.apiserver.core import Call, Core
from shoal.apiserver.deadline import seconds_for
from shoal.apiserver.policies.configurations import NOBODY as NO_POLICY
from shoal.apiserver.policies.configurations import Wanted as PolicyWanted
from shoal.apiserver.webhooks import metrics
from shoal.apiserver.webhooks import review as words
from shoal.apiserver.webhooks.calling import CallFailed
from shoal.apiserver.webhooks.configurations import NOBODY, Invocation, Wanted
from shoal.kinds.match_conditions import matches
from shoal.kinds.policies import Undecided
from shoal.kinds.webhooks import Hook
from shoal.objects import jsonpatch
from shoal.objects.errors import BadRequest, Forbidden, Invalid

log = logging.getLogger("shoal.apiserver")

Object = dict[str, Any]
Again = Callable[[Object], None]
"""Repeats on a mutated object what comes before the webhooks: defaults and built-in admission."""

MUTATION = "mutation.webhook.admission.k8s.io/"
VALIDATION = "validating.webhook.admission.k8s.io/"
ADMIT, VALIDATE = "admit", "validating"
"""Webhook types in metrics, as upstream."""


def reviewed(core: Core, call: Call, operation: str, dry_run: bool) -> Review | None:
    cluster = call.target.cluster
    hooks, policies = core.webhooks.of(cluster), core.policies.of(cluster)
    if hooks is None and policies is None:
        return None
    registry = core.clusters.registry(call.cluster)
    what = registry, operation, call.resource, call.target.subresource
    wanted = hooks.find(*what) if hooks is not None else NOBODY
    asked = policies.find(*what) if policies is not None else NO_POLICY
    return Review(core, call, operation, dry_run, wanted, asked) if wanted != NOBODY or asked != NO_POLICY else None


async def reviewed_body(core: Core, call: Call, body: Object, dry_run: bool) -> Object:
    """Returns the body of a subresource with another kind after webhooks."""
    review = reviewed(core, call, "CREATE", dry_run)
    if review is None:
        return body
    kind = kind_of(call.resource, call.target.subresource)
    group, version = kind["group"], kind["version"]
    body = {**body, "kind": kind["kind"], "apiVersion": f"{group}/{version}" if group else version}
    body.setdefault("metadata", {})
    review.options = write_body(call, "CreateOptions")
    found = await review.mutate(body, None, _nothing, BODY)
    assert found is not None
    await review.approve(found, None, BODY)
    return found


def _nothing(obj: Object) -> None:
    """No built-in admission precedes the webhooks of such a kind."""


def write_body(call: Call, kind: str) -> Object:
    """The options object of a write, from its URL."""
    body: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if call.query.get("dryRun"):
        body["dryRun"] = [call.query["dryRun"]]
    body.update({key: call.query[key] for key in ("fieldManager", "fieldValidation") if call.query.get(key)})
    return body


class Review(Question):
    """The admission of one write. Runs again for every attempt of a guaranteed update."""

    def __init__(
        self, core: Core, call: Call, operation: str, dry_run: bool, wanted: Wanted, policies: PolicyWanted
    ) -> None:
        super().__init__(core, call, operation, dry_run)
        self.wanted, self.policies = wanted, policies

    async def mutate(self, new: Object | None, old: Object | None, again: Again, form: Form = WHOLE) -> Object | None:
        """Returns the object after mutating webhooks. The second round is for webhooks that want to see later
        changes.
        """
        called: set[Hook] = set()
        due: set[Hook] = set()
        mutating = Mutating(self, self.policies[0]) if self.policies[0] else None
        after = b""
        for turn in (0, 1):
            changed = False
            if mutating is not None:
                new, changed = await mutating.round(new, old, form, turn)
            if turn and orjson.dumps(new) != after:
                due |= called
            for invocation in self.wanted[0]:
                hook = invocation.hook
                if (turn and hook not in due) or not await self._concerns(invocation, new, old, form):
                    continue
                made = await self._mutated(invocation, new, old, form, turn)
                if made is not None:
                    new, changed = made, True
                    due |= called
                    called = set()
                if hook.reinvoked:
                    called.add(hook)
            if not changed or new is None:
                break
            after = orjson.dumps(new)
            again(new)
        return new

    async def approve(self, new: Object | None, old: Object | None, form: Form = WHOLE) -> None:
        """Policies run first. Webhooks are called in parallel, and the first error in their order is raised."""
        if self.policies[1]:
            await validate(self, self.policies[1], new, old, form)
        chosen = [each for each in self.wanted[1] if await self._concerns(each, new, old, form)]
        asked = (self._approved(each, index, new, old, form) for index, each in enumerate(chosen))
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _mutated(
        self, invocation: Invocation, new: Object | None, old: Object | None, form: Form, turn: int
    ) -> Object | None:
        """Returns the object after the webhook; None if unchanged."""
        hook, place = invocation.hook, f"round_{turn}_index_{invocation.index}"
        made = None
        try:
            seen = await self.seen(invocation.shown, new, form)
            operations = await self._asked(invocation, seen, await self.seen(invocation.shown, old, form), True)
            patched = self._patched(invocation, seen, operations, form) if operations else None
            if patched is not None and patched != seen and new is not None:
                back = await self.converted(self.call.resource, patched, form)
                made = form.take(new, back)
        except CallFailed as error:
            self._failed(hook, error, MUTATION, place)
        finally:
            said = {"configuration": hook.configuration, "webhook": hook.name, "mutated": made is not None}
            self.annotate(MUTATION + place, orjson.dumps(said).decode())
        return made

    async def _approved(
        self, invocation: Invocation, index: int, new: Object | None, old: Object | None, form: Form
    ) -> None:
        try:
            seen = await self.seen(invocation.shown, new, form)
            await self._asked(invocation, seen, await self.seen(invocation.shown, old, form), False)
        except CallFailed as error:
            self._failed(invocation.hook, error, VALIDATION, f"round_0_index_{index}")

    async def _asked(
        self, invocation: Invocation, new: Object | None, old: Object | None, mutating: bool
    ) -> list[Object]:
        """Calls the webhook and records its duration."""
        now, rejected = self.core.clock.monotonic, True
        began = now()
        try:
            found = await self._answered(invocation, new, old, mutating)
            rejected = False
            return found
        finally:
            type_ = ADMIT if mutating else VALIDATE
            metrics.note_call(
                self.call.target.cluster, invocation.hook.name, type_, self.operation, rejected, now() - began
            )

    async def _answered(
        self, invocation: Invocation, new: Object | None, old: Object | None, mutating: bool
    ) -> list[Object]:
        """Returns the patch of a webhook that allows the write. Raises its denial, or CallError."""
        hook, call = invocation.hook, self.call
        if self.dry_run and not hook.harmless:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        version = words.chosen_version(hook.reviews)
        if not version:
            known = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailed(f"could not create admission objects: {known}")
        uid = str(uuid4())
        question = words.question(
            version, {"uid": uid, **self.request(invocation.shown, new, old), "object": new, "oldObject": old}
        )
        seconds = min(hook.seconds, seconds_for(call.query))
        try:
            answer = await self.core.webhooks.calls.ask(
                call.target.cluster, hook.where, question, seconds, impatient=call.user.name == LOOPS
            )
        except CallFailed as error:
            raise CallFailed(f"failed to call webhook: {error}") from None
        try:
            verdict = words.verdict(version, uid, answer, mutating=mutating)
        except words.NotAnAnswer as error:
            raise CallFailed(f"received invalid webhook response: {error}") from None
        for key, value in verdict.annotations.items():
            self.annotate(f"{hook.name}/{key}", value)
        call.warnings.extend(verdict.warnings)
        if not verdict.allowed:
            raise words.Denied(hook.name, verdict.result)
        try:
            return words.operations(verdict.patch)
        except words.NotAnAnswer as error:
            raise CallFailed(str(error)) from None

    async def _concerns(self, invocation: Invocation, new: Object | None, old: Object | None, form: Form) -> bool:
        """Reports whether selectors and match conditions select the webhook."""
        hook = invocation.hook
        if not self.selected(hook.namespaces, hook.objects, new, old):
            return False
        return not hook.conditions or await self._meets(invocation, new, old, form)

    async def _meets(self, invocation: Invocation, new: Object | None, old: Object | None, form: Form) -> bool:
        hook, resource, shown = invocation.hook, self.call.resource, invocation.shown
        seen, before = await self.seen(shown, new, form), await self.seen(shown, old, form)
        request = self.request(shown, seen, before)
        try:
            return matches(hook.conditions, seen, before, request, self.ask)
        except Undecided as error:
            if hook.fails_open:
                return False
            name = request.get("name", "")
            said = f'{resource.group_resource} "{name}" is forbidden: {error}'
            raise Forbidden(said, name=name, group=resource.group, kind=resource.plural) from None

    def _patched(self, invocation: Invocation, seen: Object | None, operations: list[Object], form: Form) -> Object:
        hook, shown = invocation.hook, invocation.shown
        if seen is None:
            raise internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this '
                "operation"
            )
        try:
            # A copy: pruning and defaulting below must not change the previous object.
            patched: Object = orjson.loads(orjson.dumps(jsonpatch.apply(seen, operations)))
        except (Invalid, BadRequest) as error:
            raise internal(str(error.__cause__ or error)) from None
        self.settled(shown, patched, f'admission webhook "{hook.name}"', seen, form)
        return patched

    def _failed(self, hook: Hook, error: CallFailed, sort: str, place: str) -> None:
        said = f'failed calling webhook "{hook.name}": {error}'
        if not hook.fails_open:
            raise internal(said)
        log.warning("%s/%s: failing open: %s", self.call.target.cluster, hook.configuration, said)
        metrics.note_failed_open(self.call.target.cluster, hook.name, ADMIT if sort == MUTATION else VALIDATE)
        self.annotate(f"failed-open.{sort}{place}", hook.name)
