"""When webhooks are asked about a write: mutating ones in turn and again where they want to be, then validating ones
at once. What they are asked, and what their answers mean for the write, is as upstream has it.

`reviewed` answers None for a write that no webhook is about; the verbs ask for the rest where it is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import uuid4

import orjson

from shoal.apiserver.admission.shown import BODY, WHOLE, Form
from shoal.apiserver.authn import LOOPS
from shoal.apiserver.core import Call, Core
from shoal.apiserver.deadline import seconds_for
from shoal.apiserver.registry import Resource
from shoal.apiserver.webhooks import review as words
from shoal.apiserver.webhooks.calling import CallFailed
from shoal.apiserver.webhooks.configurations import NOBODY, Invocation, Wanted
from shoal.apiserver.webhooks.conversion import convert
from shoal.kinds.match_conditions import Undecided, matches
from shoal.kinds.resources import NotAQuantity
from shoal.kinds.webhooks import Hook
from shoal.objects import jsonpatch
from shoal.objects.errors import BadRequest, Cause, Forbidden, InternalError, Invalid, NotFound, StatusError
from shoal.objects.metadata_types import unreadable

log = logging.getLogger("shoal.apiserver")

Object = dict[str, Any]
Again = Callable[[Object], None]
"""Carries out on a changed object what comes before the webhooks: defaults, and Shoal's own admission."""

MUTATION = "mutation.webhook.admission.k8s.io/"
VALIDATION = "validating.webhook.admission.k8s.io/"
KINDS = {"scale": ("autoscaling", "v1", "Scale")}


def reviewed(core: Core, call: Call, operation: str, dry_run: bool) -> Review | None:
    hooks = core.webhooks.of(call.target.cluster)
    if hooks is None:
        return None
    registry = core.clusters.registry(call.cluster)
    wanted = hooks.find(registry, operation, call.resource, call.target.subresource)
    return Review(core, call, operation, dry_run, wanted) if wanted != NOBODY else None


async def reviewed_body(core: Core, call: Call, body: Object, dry_run: bool) -> Object:
    """What is sent to a subresource that takes another kind, as webhooks leave it."""
    review = reviewed(core, call, "CREATE", dry_run)
    if review is None:
        return body
    kind = _kind(call.resource, call.target.subresource)
    group, version = kind["group"], kind["version"]
    body = {**body, "kind": kind["kind"], "apiVersion": f"{group}/{version}" if group else version}
    body.setdefault("metadata", {})
    review.options = write_body(call, "CreateOptions")
    found = await review.mutate(body, None, _nothing, BODY)
    assert found is not None
    await review.approve(found, None, BODY)
    return found


def _nothing(obj: Object) -> None:
    """Nothing of Shoal's own comes before the webhooks of such a kind."""


def write_body(call: Call, kind: str) -> Object:
    """The options of a write, as its URL has them."""
    body: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if call.query.get("dryRun"):
        body["dryRun"] = [call.query["dryRun"]]
    body.update({key: call.query[key] for key in ("fieldManager", "fieldValidation") if call.query.get(key)})
    return body


@dataclass(eq=False)
class Review:
    core: Core
    call: Call
    operation: str
    dry_run: bool
    wanted: Wanted
    options: Object = field(default_factory=dict)
    """Of the request, as its kind of operation has them."""

    async def mutate(self, new: Object | None, old: Object | None, again: Again, form: Form = WHOLE) -> Object | None:
        """The object as webhooks leave it. A second round is for those that want to see what later ones changed."""
        called: set[Hook] = set()
        due: set[Hook] = set()
        for turn in (0, 1):
            changed = False
            for invocation in self.wanted[0]:
                hook = invocation.hook
                if (turn and hook not in due) or not await self._concerns(invocation, new, old, form):
                    continue
                after = await self._mutated(invocation, new, old, form, turn)
                if after is not None:
                    new, changed = after, True
                    due |= called
                    called = set()
                if hook.reinvoked:
                    called.add(hook)
            if not changed or new is None:
                break
            before = orjson.dumps(new)
            again(new)
            if orjson.dumps(new) != before:
                due |= called
        return new

    async def approve(self, new: Object | None, old: Object | None, form: Form = WHOLE) -> None:
        """All are asked at once; of those who object the first in their order is heard."""
        chosen = [each for each in self.wanted[1] if await self._concerns(each, new, old, form)]
        asked = (self._approved(each, index, new, old, form) for index, each in enumerate(chosen))
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _mutated(
        self, invocation: Invocation, new: Object | None, old: Object | None, form: Form, turn: int
    ) -> Object | None:
        """The object after the webhook; None where it has changed nothing."""
        hook, place = invocation.hook, f"round_{turn}_index_{invocation.index}"
        made = None
        try:
            seen = await self._seen(invocation.shown, new, form)
            operations = await self._asked(invocation, seen, await self._seen(invocation.shown, old, form), True)
            patched = self._patched(invocation, seen, operations, form) if operations else None
            if patched is not None and patched != seen and new is not None:
                back = await self._converted(self.call.resource, patched, form)
                made = form.take(new, back)
        except CallFailed as error:
            self._failed(hook, error, MUTATION, place)
        finally:
            said = {"configuration": hook.configuration, "webhook": hook.name, "mutated": made is not None}
            self._annotate(MUTATION + place, orjson.dumps(said).decode())
        return made

    async def _approved(
        self, invocation: Invocation, index: int, new: Object | None, old: Object | None, form: Form
    ) -> None:
        try:
            seen = await self._seen(invocation.shown, new, form)
            await self._asked(invocation, seen, await self._seen(invocation.shown, old, form), False)
        except CallFailed as error:
            self._failed(invocation.hook, error, VALIDATION, f"round_0_index_{index}")

    async def _asked(
        self, invocation: Invocation, new: Object | None, old: Object | None, mutating: bool
    ) -> list[Object]:
        """The patch of one that agrees. Raises what the others say, and CallFailed."""
        hook, call = invocation.hook, self.call
        if self.dry_run and not hook.harmless:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        version = words.chosen_version(hook.reviews)
        if not version:
            known = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailed(f"could not create admission objects: {known}")
        uid = str(uuid4())
        question = words.question(version, self._request(invocation.shown, uid, new, old))
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
            self._annotate(f"{hook.name}/{key}", value)
        call.warnings.extend(verdict.warnings)
        if not verdict.allowed:
            raise words.Denied(hook.name, verdict.result)
        try:
            return words.operations(verdict.patch)
        except words.NotAnAnswer as error:
            raise CallFailed(str(error)) from None

    def _request(self, shown: Resource, uid: str, new: Object | None, old: Object | None) -> Object:
        call, resource, sub = self.call, self.call.resource, self.call.target.subresource
        name = call.name or str(((new or old or {}).get("metadata") or {}).get("name") or "")
        # Upstream leaves empty names out.
        named = {"subResource": sub, "requestSubResource": sub, "name": name, "namespace": self._namespace(name)}
        return {
            "uid": uid,
            "kind": _kind(shown, sub),
            "resource": _resource(shown),
            "requestKind": _kind(resource, sub),
            "requestResource": _resource(resource),
            **{key: value for key, value in named.items() if value},
            "operation": self.operation,
            "userInfo": self._user,
            "object": new,
            "oldObject": old,
            "dryRun": self.dry_run,
            "options": self.options,
        }

    @cached_property
    def _user(self) -> Object:
        user = self.call.user
        found = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
        return {key: value for key, value in found.items() if value}

    def _namespace(self, name: str) -> str:
        return name if _is_namespace(self.call.resource) else self.call.namespace

    async def _concerns(self, invocation: Invocation, new: Object | None, old: Object | None, form: Form) -> bool:
        """Whether selectors and conditions leave the webhook to be asked."""
        hook = invocation.hook
        if not hook.namespaces.empty and not self._in_namespace(hook, new):
            return False
        if not hook.objects.empty and not any(
            hook.objects.matches((obj.get("metadata") or {}).get("labels") or {})
            for obj in (new, old)
            if obj is not None
        ):
            return False
        return not hook.conditions or await self._meets(invocation, new, old, form)

    async def _meets(self, invocation: Invocation, new: Object | None, old: Object | None, form: Form) -> bool:
        hook, resource, shown = invocation.hook, self.call.resource, invocation.shown
        seen, before = await self._seen(shown, new, form), await self._seen(shown, old, form)
        request = self._request(shown, "", seen, before)
        try:
            return matches(hook.conditions, seen, before, request)
        except Undecided as error:
            if hook.fails_open:
                return False
            name = request.get("name", "")
            said = f'{resource.group_resource} "{name}" is forbidden: {error}'
            raise Forbidden(said, name=name, group=resource.group, kind=resource.plural) from None

    def _in_namespace(self, hook: Hook, new: Object | None) -> bool:
        call = self.call
        if _is_namespace(call.resource):
            if new is not None and not call.target.subresource:
                return hook.namespaces.matches(new["metadata"].get("labels") or {})
            name = call.name
        elif not call.namespace:
            return True
        else:
            name = call.namespace
        entry = self.core.cache.kind("", "namespaces").get(call.target.cluster, "", name)
        if entry is None:
            raise NotFound(f'namespaces "{name}" not found', name=name, kind="namespaces")
        return hook.namespaces.matches(entry.labels)

    async def _seen(self, shown: Resource, obj: Object | None, form: Form) -> Object | None:
        return None if obj is None else await self._converted(shown, form.show(obj), form)

    async def _converted(self, resource: Resource, obj: Object, form: Form) -> Object:
        """The object as that resource has it."""
        if not form.typed or obj.get("apiVersion") == resource.api_version:
            return obj
        if resource.custom:
            calls = self.core.webhooks.calls
            return (await convert(calls, self.call.target.cluster, resource, [orjson.loads(orjson.dumps(obj))]))[0]
        here = resource.rules.shared
        if here is not None:
            return here.from_stored(orjson.loads(orjson.dumps(obj)))
        there = self.core.clusters.registry(self.call.cluster).find("events.k8s.io", "v1", "events")
        assert there is not None
        assert there.rules.shared is not None
        return there.rules.shared.to_stored(orjson.loads(orjson.dumps(obj)))

    def _patched(self, invocation: Invocation, seen: Object | None, operations: list[Object], form: Form) -> Object:
        hook, shown = invocation.hook, invocation.shown
        if seen is None:
            raise _internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this '
                "operation"
            )
        try:
            # A copy: what is pruned and defaulted below must not reach into the object that was there before.
            patched = orjson.loads(orjson.dumps(jsonpatch.apply(seen, operations)))
        except (Invalid, BadRequest) as error:
            raise _internal(str(error.__cause__ or error)) from None
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise _internal(f'the patch of admission webhook "{hook.name}" did not leave an object')
        if any(patched.get(field) != seen.get(field) for field in ("apiVersion", "kind")):
            raise _internal(f'the patch of admission webhook "{hook.name}" changed the type of the object')
        if form.typed:
            model = shown.model()
            model.prune(patched, collect=False)
            wrong = unreadable(patched["metadata"]) if shown.custom else model.decoding_problem(patched)
            if wrong:
                raise _internal(wrong)
            model.default(patched)
            try:
                shown.rules.default(patched)
            except NotAQuantity as error:
                raise _internal(error.message) from None
        return patched

    def _failed(self, hook: Hook, error: CallFailed, sort: str, place: str) -> None:
        said = f'failed calling webhook "{hook.name}": {error}'
        if not hook.fails_open:
            raise _internal(said)
        log.warning("%s/%s: failing open: %s", self.call.target.cluster, hook.configuration, said)
        self._annotate(f"failed-open.{sort}{place}", hook.name)

    def _annotate(self, key: str, value: str) -> None:
        if self.call.annotations is None:
            self.call.annotations = {}
        self.call.annotations[key] = value


def _internal(said: str) -> StatusError:
    return InternalError(f"Internal error occurred: {said}", causes=[Cause("", said)])


def _is_namespace(resource: Resource) -> bool:
    return resource.plural == "namespaces" and not resource.group


def _kind(resource: Resource, subresource: str) -> Object:
    taken = KINDS.get(subresource) or resource.subresources.get(subresource, ())[:3]
    group, version, kind = taken or (resource.group, resource.version, resource.kind)
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}
