"""ControllerRevisions of one kind of owner: creates or promotes the current revision and truncates old ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.controlplane.podcontrol.control import is_alive
from shoal.kinds.revisions import new_revision, next_number, number_of, ordered, same_as
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.objects.ownership import (
    adoption,
    claim,
    controller_named,
    controller_reference,
    is_controlled_by,
    release,
)
from shoal.runtime.dependents import Dependents
from shoal.runtime.ownwrites import OwnWrites

Object = dict[str, Any]

REVISIONS = Kind("apps", "v1", "controllerrevisions")


class Newest(NamedTuple):
    """The revision of the owner's template, and the number of name collisions."""

    revision: Object
    collisions: int


class History:
    """Keys are those of owners, which are of group version `apps/v1`."""

    def __init__(self, client: Client, revisions: Dependents, owners: Kind, named: str) -> None:
        self._client, self._revisions, self._owners, self._named = client, revisions, owners, named
        self._writes: OwnWrites[Key] = OwnWrites(revisions)

    def in_sight(self, key: Key) -> bool:
        return self._writes.in_sight(key)

    def forget(self, key: Key) -> None:
        self._writes.forget(key)

    def owners_of(self, key: Key, before: Object | None, now: Object | None) -> set[Key]:
        """Returns the owners that a change of a revision affects."""
        names = {controller_named(before, "apps", self._named), controller_named(now, "apps", self._named)} - {""}
        return {(key[0], key[1], name) for name in names}

    async def found(self, key: Key, owner: Object) -> list[Object] | None:
        """Returns the owner's revisions, oldest first. None: revisions were adopted or released and the informer has
        not delivered that yet.
        """
        claims = claim(owner, self._revisions.owned(key, owner["metadata"]["uid"]), self._revisions.orphans(key))
        client = self._client.at(key[0])
        patches = [(one, release(one, owner)) for one in claims.release]
        if claims.adopt and await is_alive(client, self._owners, owner):
            reference = controller_reference(owner, "apps/v1", self._named)
            patches += [(one, adoption(one, reference)) for one in claims.adopt]
        for one, patch in patches:
            self._writes.wrote(key, await client.merge(REVISIONS, one["metadata"]["name"], patch, key[1]))
        return None if patches else ordered(claims.kept)

    async def newest(self, key: Key, owner: Object, revisions: list[Object]) -> Newest:
        """Creates the revision of the current template, or gives it the highest number if an older revision is
        equal.
        """
        collisions = int((owner.get("status") or {}).get("collisionCount") or 0)
        same = same_as(owner, revisions)
        if same is None:
            return await self._create(key, owner, next_number(revisions), collisions)
        if number_of(same) < number_of(revisions[-1]):
            same = await self._client.at(key[0]).update(REVISIONS, {**same, "revision": next_number(revisions)})
            self._writes.wrote(key, same)
        return Newest(same, collisions)

    async def drop(self, key: Key, revisions: Iterable[Object]) -> None:
        client = self._client.at(key[0])
        for one in revisions:
            metadata = one["metadata"]
            try:
                await client.delete(REVISIONS, metadata["name"], key[1], uid=metadata["uid"])
            except NotFound:
                continue

    async def _create(self, key: Key, owner: Object, number: int, collisions: int) -> Newest:
        client, reference = self._client.at(key[0]), controller_reference(owner, "apps/v1", self._named)
        while True:
            wanted = new_revision(owner, reference, number, collisions)
            try:
                made = await client.create(REVISIONS, wanted, key[1])
            except AlreadyExists:
                made = await client.get(REVISIONS, wanted["metadata"]["name"], key[1])
                if not is_controlled_by(made, owner) or made.get("data") != wanted["data"]:
                    collisions += 1
                    continue
            self._writes.wrote(key, made)
            return Newest(made, collisions)
