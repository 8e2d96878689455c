"""Saving the hub's last message with a copy, and when a saved message is used."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.bus.cloudevents import PUT, RELEASED, decode_event, encode_event, event_from_watch
from shoal.fleet.bus.decide import MAX_SINGLE_FETCHES, diff_digest, held_revisions, prefers_full_list
from shoal.fleet.bus.interface import BusMessage, Name, message_of
from shoal.fleet.bus.message_cache import MessageCache
from shoal.fleet.worker.subscriber import last_message
from shoal.fleet.worker.subscriber.decide import new_copy, version_of
from shoal.objects import digest

Object = dict[str, Any]
HUB, NOW = "hub-1", "2026-11-16T00:00:00.000000Z"


def managed(revision: int = 7, name: str = "east", epoch: int = 1, **metadata: Any) -> Object:
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "ManagedCluster",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "generation": 2,
            "resourceVersion": str(revision),
            "managedFields": [{"manager": "kubectl"}],
            **metadata,
        },
        "spec": {"nodes": 3},
        "status": {"assignedWorker": "w1", "epoch": epoch, "phase": "Running"},
    }


def copied(message: BusMessage, hub: str = HUB) -> Object:
    made = new_copy(message, hub)
    made["metadata"]["resourceVersion"] = "1"
    return made


def patched(copy: Object, patch: Object) -> Object:
    annotations = {**copy["metadata"]["annotations"], **patch["metadata"]["annotations"]}
    return {**copy, "metadata": {**copy["metadata"], "annotations": annotations}}


def test_what_is_remembered_is_recalled() -> None:
    first, later = message_of(managed(7)), message_of(managed(9))
    copy = copied(first)
    assert last_message.saved_message(copy, HUB) is None
    patch = last_message.save_patch(later, copy, HUB)
    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "1", "nobody else's change is overwritten"
    kept = patched(copy, patch)
    found = last_message.saved_message(kept, HUB)
    assert found == later
    assert found is not None
    assert found.managed == {**managed(9), "metadata": found.managed["metadata"]}
    assert "managedFields" not in found.managed["metadata"]
    assert version_of(kept) == later.version
    assert last_message.save_patch(later, kept, HUB) is None, "it is not written twice"
    assert last_message.saved_message(kept, "another hub") is None


def test_what_is_not_to_be_remembered() -> None:
    first = message_of(managed(7))
    copy = copied(first)
    assert last_message.save_patch(message_of(managed(6)), copy, HUB) is None, "older than what was applied"
    assert last_message.save_patch(message_of(managed(9)), copied(first, "another hub"), HUB) is None
    deleting = message_of(managed(9, deletionTimestamp="2026-11-16T00:00:00Z"))
    assert last_message.save_patch(deleting, copy, HUB) is None
    large = message_of(managed(9, annotations={"a": "x" * last_message.MAX_OBJECT_BYTES}))
    assert last_message.save_patch(large, copy, HUB) is None
    going = {**copy, "metadata": {**copy["metadata"], "deletionTimestamp": "2026-11-16T00:00:00Z"}}
    assert last_message.save_patch(message_of(managed(9)), going, HUB) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"metadata":{"name":"east"}}', "null"])
def test_a_broken_memory_is_none(text: str) -> None:
    copy = copied(message_of(managed()))
    copy["metadata"]["annotations"][last_message.HUB_OBJECT_ANNOTATION] = text
    assert last_message.saved_message(copy, HUB) is None


def test_a_copy_that_went_on_without_it_recalls_nothing() -> None:
    patch = last_message.save_patch(message_of(managed(9)), copied(message_of(managed(7))), HUB)
    assert patch is not None
    newer = patched(copied(message_of(managed(12))), {"metadata": {"annotations": {}}})
    newer["metadata"]["annotations"][last_message.HUB_OBJECT_ANNOTATION] = patch["metadata"]["annotations"][
        last_message.HUB_OBJECT_ANNOTATION
    ]
    assert last_message.saved_message(newer, HUB) is None


# --- digests ---


def messages(*managed_clusters: Object) -> dict[Name, BusMessage]:
    found = [message_of(each) for each in managed_clusters]
    return {message.name: message for message in found}


def answer(buckets: list[int], items: dict[str, str]) -> Object:
    return {"kind": "Digest", "metadata": {"resourceVersion": "50"}, "buckets": buckets, "items": items}


def test_what_a_digest_tells() -> None:
    ours = held_revisions(messages(managed(7, "a"), managed(8, "b"), managed(9, "c")))
    assert digest.decode(ours.encode_digest) == digest.bucket_sums(ours.revisions.items(), ours.buckets)
    everywhere = list(range(ours.buckets))
    found = diff_digest(ours, answer(everywhere, {"default/a": "7", "default/b": "10", "default/new": "11"}))
    assert found is not None
    assert found.fetch == (("default", "b"), ("default", "new"))
    assert found.released == (("default", "c"),)
    none = diff_digest(ours, answer([], {}))
    assert none is not None
    assert (none.fetch, none.released) == ((), ()), "buckets that were not looked at are as they are"
    assert diff_digest(ours, {"kind": "ManagedClusterList", "items": []}) is None
    assert not prefers_full_list(found, ours)
    many = diff_digest(ours, answer(everywhere, {f"default/{number}": "7" for number in range(MAX_SINGLE_FETCHES + 1)}))
    assert many is not None
    assert prefers_full_list(many, ours)


# --- one form of both transports ---


def test_a_watch_event_and_a_cloudevent_say_the_same() -> None:
    obj = managed(7)
    watched = event_from_watch("MODIFIED", obj, HUB, "w1", NOW)
    published = decode_event(watched.subject, encode_event(watched, NOW))
    assert watched == published
    first, second = watched.to_message(), published.to_message()
    assert first == second
    for attribute in ("id", "type", "subject", "time", "managed"):
        assert getattr(first, attribute) == getattr(second, attribute)
    assert (first.id, first.type, first.time) == ("uid-east.1.7.put", PUT, NOW)
    gone = event_from_watch("DELETED", obj, HUB, "w1", NOW)
    assert (gone.type, gone.data) == (RELEASED, None)


def test_an_older_word_does_not_bring_back_what_was_released() -> None:
    inbox, told = MessageCache(), list[Name]()
    inbox.add_event_handler(told.append)
    inbox.apply(event_from_watch("ADDED", managed(7), HUB, "w1", NOW))
    inbox.apply(event_from_watch("DELETED", managed(9), HUB, "w1", NOW))
    inbox.apply(event_from_watch("MODIFIED", managed(8), HUB, "w1", NOW))
    assert inbox.messages == {}
    assert len(told) == 2
    inbox.apply(event_from_watch("ADDED", managed(10, epoch=2), HUB, "w1", NOW))
    assert list(inbox.messages) == [("default", "east")]
    inbox.clear()
    inbox.apply(event_from_watch("ADDED", managed(1), "another", "w1", NOW))
    assert inbox.messages[("default", "east")].version.revision == 1, "another hub's line is another"
