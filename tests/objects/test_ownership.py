"""Controller references, adoption and release."""

from __future__ import annotations

from typing import Any

from shoal.objects.ownership import (
    adoption_patch,
    claim_objects,
    controller_name,
    controller_of,
    controller_reference,
    is_controlled_by,
    release_patch,
    selector_of,
)
from shoal.objects.selectors import SELECT_NOTHING

Object = dict[str, Any]

OWNER: Object = {"metadata": {"name": "o", "uid": "u"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
REFERENCE = controller_reference(OWNER, "apps/v1", "ReplicaSet")


def obj(name: str, *, app: str = "web", owned: bool = False, **metadata: Any) -> Object:
    found: Object = {"name": name, "resourceVersion": "7", "labels": {"app": app}, **metadata}
    if owned:
        found["ownerReferences"] = [{"name": "bystander", "uid": "b"}, REFERENCE]
    return {"metadata": found}


def test_the_controller_is_the_marked_owner() -> None:
    assert controller_of(obj("a")) is None
    assert controller_of(obj("a", ownerReferences=[{"uid": "b"}, {"uid": "c", "controller": False}])) is None
    assert controller_of(obj("a", owned=True)) == REFERENCE
    assert is_controlled_by(obj("a", owned=True), OWNER)
    assert not is_controlled_by(obj("a"), OWNER)
    assert controller_name(obj("a", owned=True), "apps", "ReplicaSet") == "o"
    assert controller_name(obj("a", owned=True), "batch", "ReplicaSet") == ""
    assert controller_name(obj("a", owned=True), "apps", "Deployment") == ""
    assert controller_name(None, "apps", "ReplicaSet") == ""


def test_claims() -> None:
    owned = [obj("kept", owned=True), obj("stranger", app="other", owned=True)]
    orphans = [obj("orphan"), obj("other", app="other"), obj("going", deletionTimestamp="now")]
    claims = claim_objects(OWNER, owned, orphans)
    found = [[one["metadata"]["name"] for one in group] for group in (claims.owned, claims.adopt, claims.release)]
    assert found == [["kept"], ["orphan"], ["stranger"]]
    going = {**OWNER, "metadata": {**OWNER["metadata"], "deletionTimestamp": "now"}}
    claims = claim_objects(going, owned, orphans)
    assert (len(claims.owned), claims.adopt, claims.release) == (1, [], [])


def test_patches_hold_only_for_what_was_seen() -> None:
    assert adoption_patch(obj("a"), REFERENCE) == {"metadata": {"resourceVersion": "7", "ownerReferences": [REFERENCE]}}
    assert release_patch(obj("a", owned=True), OWNER) == {
        "metadata": {"resourceVersion": "7", "ownerReferences": [{"name": "bystander", "uid": "b"}]}
    }
    assert release_patch(obj("a", ownerReferences=[REFERENCE]), OWNER)["metadata"]["ownerReferences"] is None


def test_a_selector_that_cannot_be_read_selects_nothing() -> None:
    assert selector_of({"spec": {"selector": {"matchExpressions": [{"operator": "Like"}]}}}) is SELECT_NOTHING
    assert selector_of({}) is SELECT_NOTHING
