"""ControllerRevisions of one kind of owner: creates or promotes the current revision and truncates old ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.controlplane.podcontrol.control import can_adopt
from shoal.kinds.apps.revision import (
    find_equal_revision,
    new_revision,
    next_revision_number,
    revision_number,
    sort_revisions,
)
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.objects.ownership import (
    adoption_patch,
    claim_objects,
    controller_name,
    controller_reference,
    is_controlled_by,
    release_patch,
)
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller

Object = dict[str, Any]

CONTROLLER_REVISIONS = GroupVersionResource("apps", "v1", "controllerrevisions")


class CurrentRevision(NamedTuple):
    """The revision of the owner's template, and the number of name collisions."""

    revision: Object
    collision_count: int


class ControllerHistory:
    """Keys are those of owners, which are of group version `apps/v1`."""

    def __init__(self, client: Client, revisions: Informer, owner_gvr: GroupVersionResource, owner_kind: str) -> None:
        """`revisions` is indexed by controller."""
        self._client, self._revisions, self._owner_gvr, self._owner_kind = client, revisions, owner_gvr, owner_kind
        self._expectations: WriteExpectations[Key] = WriteExpectations(revisions)

    def satisfied(self, key: Key) -> bool:
        return self._expectations.satisfied(key)

    def forget(self, key: Key) -> None:
        self._expectations.forget(key)

    def owners_of(self, key: Key, old: Object | None, new: Object | None) -> set[Key]:
        """Returns the owners that a change of a revision affects."""
        names = {controller_name(old, "apps", self._owner_kind), controller_name(new, "apps", self._owner_kind)} - {""}
        return {(key[0], key[1], name) for name in names}

    async def adopt_and_list(self, key: Key, owner: Object) -> list[Object] | None:
        """Returns the owner's revisions, oldest first. None: revisions were adopted or released and the informer has
        not delivered that yet.
        """
        claims = claim_objects(
            owner,
            self._revisions.by_index(by_controller, (*key[:2], owner["metadata"]["uid"])),
            self._revisions.by_index(by_controller, (*key[:2], "")),
        )
        client = self._client.in_cluster(key[0])
        patches = [(one, release_patch(one, owner)) for one in claims.release]
        if claims.adopt and await can_adopt(client, self._owner_gvr, owner):
            reference = controller_reference(owner, "apps/v1", self._owner_kind)
            patches += [(one, adoption_patch(one, reference)) for one in claims.adopt]
        for one, patch in patches:
            self._expectations.expect(
                key, await client.merge_patch(CONTROLLER_REVISIONS, one["metadata"]["name"], patch, key[1])
            )
        return None if patches else sort_revisions(claims.owned)

    async def current_revision(self, key: Key, owner: Object, revisions: list[Object]) -> CurrentRevision:
        """Creates the revision of the current template, or gives it the highest number if an older revision is
        equal.
        """
        collision_count = int((owner.get("status") or {}).get("collisionCount") or 0)
        existing = find_equal_revision(owner, revisions)
        if existing is None:
            return await self._create_revision(key, owner, next_revision_number(revisions), collision_count)
        if revision_number(existing) < revision_number(revisions[-1]):
            existing = await self._client.in_cluster(key[0]).update(
                CONTROLLER_REVISIONS, {**existing, "revision": next_revision_number(revisions)}
            )
            self._expectations.expect(key, existing)
        return CurrentRevision(existing, collision_count)

    async def truncate(self, key: Key, revisions: Iterable[Object]) -> None:
        client = self._client.in_cluster(key[0])
        for one in revisions:
            metadata = one["metadata"]
            try:
                await client.delete(CONTROLLER_REVISIONS, metadata["name"], key[1], uid=metadata["uid"])
            except NotFound:
                continue

    async def _create_revision(self, key: Key, owner: Object, number: int, collision_count: int) -> CurrentRevision:
        client, reference = self._client.in_cluster(key[0]), controller_reference(owner, "apps/v1", self._owner_kind)
        while True:
            desired = new_revision(owner, reference, number, collision_count)
            try:
                created = await client.create(CONTROLLER_REVISIONS, desired, key[1])
            except AlreadyExists:
                created = await client.get(CONTROLLER_REVISIONS, desired["metadata"]["name"], key[1])
                if not is_controlled_by(created, owner) or created.get("data") != desired["data"]:
                    collision_count += 1
                    continue
            self._expectations.expect(key, created)
            return CurrentRevision(created, collision_count)
