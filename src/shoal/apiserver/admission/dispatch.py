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

from shoal.apiserver.admission.attributes import AdmissionAttributes, group_version_kind, internal_error
from shoal.apiserver.admission.policies import MutatingPolicies, validate_policies
from shoal.apiserver.admission.projection import SUBRESOURCE_BODY, WHOLE_OBJECT, Projection
from shoal.apiserver.registry.policy_source import NO_POLICIES, MatchedPolicies
from shoal.apiserver.request.deadline import request_timeout
from shoal.apiserver.server import RequestContext, ServerComponents, slice_path
from shoal.apiserver.webhooks import metrics
from shoal.apiserver.webhooks import review as words
from shoal.apiserver.webhooks.client import CallError
from shoal.apiserver.webhooks.source import NO_WEBHOOKS, MatchedWebhooks, WebhookInvocation
from shoal.kinds.admissionregistration.match_conditions import match_conditions_met
from shoal.kinds.admissionregistration.policies import MatchError
from shoal.kinds.admissionregistration.webhook_client import Webhook
from shoal.objects import jsonpatch
from shoal.objects.errors import BadRequest, Forbidden, Invalid

log = logging.getLogger("shoal.apiserver")

Object = dict[str, Any]
Reinvoke = Callable[[Object], None]
"""Repeats on a mutated object what comes before the webhooks: defaults and built-in admission."""

MUTATION_ANNOTATION = "mutation.webhook.admission.k8s.io/"
VALIDATION_ANNOTATION = "validating.webhook.admission.k8s.io/"
ADMIT_TYPE, VALIDATING_TYPE = "admit", "validating"
"""Webhook types in metrics, as upstream."""


def dispatcher_for(
    server: ServerComponents, ctx: RequestContext, operation: str, dry_run: bool
) -> AdmissionDispatcher | None:
    cluster = ctx.info.cluster
    webhooks, policies = server.webhooks.for_cluster(cluster), server.policies.for_cluster(cluster)
    if webhooks is None and policies is None:
        return None
    registry = server.clusters.registry(ctx.cluster)
    write = registry, operation, ctx.resource, ctx.info.subresource
    matched_webhooks = webhooks.match(*write) if webhooks is not None else NO_WEBHOOKS
    matched_policies = policies.match(*write) if policies is not None else NO_POLICIES
    return (
        AdmissionDispatcher(server, ctx, operation, dry_run, matched_webhooks, matched_policies)
        if matched_webhooks != NO_WEBHOOKS or matched_policies != NO_POLICIES
        else None
    )


async def admit_body(server: ServerComponents, ctx: RequestContext, body: Object, dry_run: bool) -> Object:
    """Returns the body of a subresource with another kind after webhooks."""
    dispatcher = dispatcher_for(server, ctx, "CREATE", dry_run)
    if dispatcher is None:
        return body
    kind = group_version_kind(ctx.resource, ctx.info.subresource)
    group, version = kind["group"], kind["version"]
    body = {**body, "kind": kind["kind"], "apiVersion": f"{group}/{version}" if group else version}
    body.setdefault("metadata", {})
    dispatcher.options = options_body(ctx, "CreateOptions")
    admitted = await dispatcher.mutate(body, None, _no_reinvocation, SUBRESOURCE_BODY)
    assert admitted is not None
    await dispatcher.validate(admitted, None, SUBRESOURCE_BODY)
    return admitted


def _no_reinvocation(obj: Object) -> None:
    """No built-in admission precedes the webhooks of such a kind."""


def options_body(ctx: RequestContext, kind: str) -> Object:
    """The options object of a write, from its URL."""
    body: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if ctx.query.get("dryRun"):
        body["dryRun"] = [ctx.query["dryRun"]]
    body.update({key: ctx.query[key] for key in ("fieldManager", "fieldValidation") if ctx.query.get(key)})
    return body


class AdmissionDispatcher(AdmissionAttributes):
    """The admission of one write. Runs again for every attempt of a guaranteed update."""

    def __init__(
        self,
        server: ServerComponents,
        ctx: RequestContext,
        operation: str,
        dry_run: bool,
        matched_webhooks: MatchedWebhooks,
        matched_policies: MatchedPolicies,
    ) -> None:
        super().__init__(server, ctx, operation, dry_run)
        self.matched_webhooks, self.matched_policies = matched_webhooks, matched_policies

    async def mutate(
        self, new: Object | None, old: Object | None, reinvoke: Reinvoke, projection: Projection = WHOLE_OBJECT
    ) -> Object | None:
        """Returns the object after mutating webhooks. The second round is for webhooks that want to see later
        changes.
        """
        reinvocable: set[Webhook] = set()
        due: set[Webhook] = set()
        mutating = MutatingPolicies(self, self.matched_policies[0]) if self.matched_policies[0] else None
        state_after = b""
        for round_index in (0, 1):
            changed = False
            if mutating is not None:
                new, changed = await mutating.run_round(new, old, projection, round_index)
            if round_index and orjson.dumps(new) != state_after:
                due |= reinvocable
            for invocation in self.matched_webhooks[0]:
                webhook = invocation.webhook
                if (round_index and webhook not in due) or not await self._matches(invocation, new, old, projection):
                    continue
                mutated_object = await self._call_mutating(invocation, new, old, projection, round_index)
                if mutated_object is not None:
                    new, changed = mutated_object, True
                    due |= reinvocable
                    reinvocable = set()
                if webhook.reinvoke_if_needed:
                    reinvocable.add(webhook)
            if not changed or new is None:
                break
            state_after = orjson.dumps(new)
            reinvoke(new)
        return new

    async def validate(self, new: Object | None, old: Object | None, projection: Projection = WHOLE_OBJECT) -> None:
        """Policies run first. Webhooks are called in parallel, and the first error in their order is raised."""
        if self.matched_policies[1]:
            await validate_policies(self, self.matched_policies[1], new, old, projection)
        matching = [each for each in self.matched_webhooks[1] if await self._matches(each, new, old, projection)]
        calls = (self._call_validating(each, index, new, old, projection) for index, each in enumerate(matching))
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _call_mutating(
        self,
        invocation: WebhookInvocation,
        new: Object | None,
        old: Object | None,
        projection: Projection,
        round_index: int,
    ) -> Object | None:
        """Returns the object after the webhook; None if unchanged."""
        webhook, position = invocation.webhook, f"round_{round_index}_index_{invocation.index}"
        mutated_object = None
        try:
            shown_object = await self.versioned_object(invocation.resource, new, projection)
            operations = await self._timed_call(
                invocation, shown_object, await self.versioned_object(invocation.resource, old, projection), True
            )
            patched = self._apply_patch(invocation, shown_object, operations, projection) if operations else None
            if patched is not None and patched != shown_object and new is not None:
                converted = await self.convert_object(self.ctx.resource, patched, projection)
                mutated_object = projection.merge_back(new, converted)
        except CallError as error:
            self._handle_failure(webhook, error, MUTATION_ANNOTATION, position)
        finally:
            annotation = {
                "configuration": webhook.configuration_name,
                "webhook": webhook.name,
                "mutated": mutated_object is not None,
            }
            self.annotate(MUTATION_ANNOTATION + position, orjson.dumps(annotation).decode())
        return mutated_object

    async def _call_validating(
        self, invocation: WebhookInvocation, index: int, new: Object | None, old: Object | None, projection: Projection
    ) -> None:
        try:
            shown_object = await self.versioned_object(invocation.resource, new, projection)
            await self._timed_call(
                invocation, shown_object, await self.versioned_object(invocation.resource, old, projection), False
            )
        except CallError as error:
            self._handle_failure(invocation.webhook, error, VALIDATION_ANNOTATION, f"round_0_index_{index}")

    async def _timed_call(
        self, invocation: WebhookInvocation, new: Object | None, old: Object | None, mutating: bool
    ) -> list[Object]:
        """Calls the webhook and records its duration."""
        now, rejected = self.server.clock.monotonic, True
        started = now()
        try:
            operations = await self._call_webhook(invocation, new, old, mutating)
            rejected = False
            return operations
        finally:
            type_ = ADMIT_TYPE if mutating else VALIDATING_TYPE
            metrics.observe_call(
                self.ctx.info.cluster, invocation.webhook.name, type_, self.operation, rejected, now() - started
            )

    async def _call_webhook(
        self, invocation: WebhookInvocation, new: Object | None, old: Object | None, mutating: bool
    ) -> list[Object]:
        """Returns the patch of a webhook that allows the write. Raises its denial, or CallError."""
        webhook, call = invocation.webhook, self.ctx
        if self.dry_run and not webhook.allows_dry_run:
            raise BadRequest(f'admission webhook "{webhook.name}" does not support dry run')
        version = words.supported_version(webhook.review_versions)
        if not version:
            reason = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallError(f"could not create admission objects: {reason}")
        uid = str(uuid4())
        review_body = words.build_review(
            version,
            {"uid": uid, **self.admission_request(invocation.resource, new, old), "object": new, "oldObject": old},
        )
        seconds = min(webhook.timeout_seconds, request_timeout(call.query))
        try:
            answer = await self.server.webhooks.client.call(
                call.info.cluster,
                webhook.client_config,
                review_body,
                seconds,
                fail_fast=call.user.embedded,
            )
        except CallError as error:
            raise CallError(f"failed to call webhook: {error}") from None
        try:
            response = words.parse_review(version, uid, answer, mutating=mutating)
        except words.UnrecognisedResponse as error:
            hidden = self.server.webhooks.client.undisclosed_failure(
                call.info.cluster, webhook.client_config, seconds, str(error)
            )
            reason = f"failed to call webhook: {hidden}" if hidden else f"received invalid webhook response: {error}"
            raise CallError(reason) from None
        except words.InvalidResponse as error:
            raise CallError(f"received invalid webhook response: {error}") from None
        for key, value in response.annotations.items():
            self.annotate(f"{webhook.name}/{key}", value)
        call.warnings.extend(response.warnings)
        if not response.allowed:
            raise words.WebhookDenied(webhook.name, response.result)
        try:
            return words.patch_operations(response.patch)
        except words.InvalidResponse as error:
            raise CallError(str(error)) from None

    async def _matches(
        self, invocation: WebhookInvocation, new: Object | None, old: Object | None, projection: Projection
    ) -> bool:
        """Reports whether selectors and match conditions select the webhook."""
        webhook = invocation.webhook
        if not self.matches_selectors(webhook.namespace_selector, webhook.object_selector, new, old):
            return False
        return not webhook.match_conditions or await self._meets_conditions(invocation, new, old, projection)

    async def _meets_conditions(
        self, invocation: WebhookInvocation, new: Object | None, old: Object | None, projection: Projection
    ) -> bool:
        webhook, resource, matched = invocation.webhook, self.ctx.resource, invocation.resource
        new_object, old_object = (
            await self.versioned_object(matched, new, projection),
            await self.versioned_object(matched, old, projection),
        )
        request = self.admission_request(matched, new_object, old_object)
        try:
            return await self.server.slices.call(
                slice_path(self.ctx),
                lambda pause: match_conditions_met(
                    webhook.match_conditions, new_object, old_object, request, self.cel_authorizer, pause
                ),
            )
        except MatchError as error:
            if webhook.fails_open:
                return False
            name = request.get("name", "")
            message = f'{resource.group_resource} "{name}" is forbidden: {error}'
            raise Forbidden(message, name=name, group=resource.group, kind=resource.plural) from None

    def _apply_patch(
        self, invocation: WebhookInvocation, original: Object | None, operations: list[Object], projection: Projection
    ) -> Object:
        webhook, matched = invocation.webhook, invocation.resource
        if original is None:
            raise internal_error(
                f'admission webhook "{webhook.name}" attempted to modify the object, which is not supported for this '
                "operation"
            )
        try:
            # A copy: pruning and defaulting below must not change the previous object.
            patched: Object = orjson.loads(orjson.dumps(jsonpatch.apply(original, operations)))
        except (Invalid, BadRequest) as error:
            raise internal_error(str(error.__cause__ or error)) from None
        self.decode_patched(matched, patched, f'admission webhook "{webhook.name}"', original, projection)
        return patched

    def _handle_failure(self, webhook: Webhook, error: CallError, annotation_prefix: str, position: str) -> None:
        message = f'failed calling webhook "{webhook.name}": {error}'
        if not webhook.fails_open:
            raise internal_error(message)
        log.warning("%s/%s: failing open: %s", self.ctx.info.cluster, webhook.configuration_name, message)
        metrics.count_failed_open(
            self.ctx.info.cluster,
            webhook.name,
            ADMIT_TYPE if annotation_prefix == MUTATION_ANNOTATION else VALIDATING_TYPE,
        )
        self.annotate(f"failed-open.{annotation_prefix}{position}", webhook.name)
