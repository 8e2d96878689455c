"""Decides which images of the container engine are loaded into the nodes of a KINDCluster. Pure.

The claim records what was loaded, so another kind cluster gets the images anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.capi.conditions import FALSE, TRUE, UNKNOWN, Condition, with_condition
from shoal.capi.providers.kind.errors import COMMAND_FAILED, LOAD_FAILED
from shoal.capi.providers.kind.status import (
    IMAGES_LOADED,
    LOAD_IMAGES,
    HistoryEntry,
    claim_of,
    next_retry,
    retry_wait,
    status_of,
    with_history_entry,
    with_progress,
)
from shoal.capi.providers.kind.status_steps import write_step
from shoal.capi.providers.kind.steps import (
    FetchKubeconfig,
    InspectImages,
    JobState,
    KindClusterSnapshot,
    KindStep,
    LoadImages,
    WaitForChange,
)
from shoal.kinds.clusterapi.kindcluster import images_of
from shoal.objects.conditions import remove_condition

Object = dict[str, Any]


def image_step(snapshot: KindClusterSnapshot, claim: Object) -> KindStep:
    """The next step for the images of a kind cluster that is ready."""
    obj, images = snapshot.obj, images_of(snapshot.obj)
    if not images:
        return write_step(snapshot, remove_condition(obj, IMAGES_LOADED))
    engine = snapshot.engine_images
    if engine is None:
        return InspectImages(tuple(images))
    if engine.error is not None:
        return _write(snapshot, UNKNOWN, engine.error.reason, engine.error.message)
    loaded = loaded_images(claim)
    outdated = {name: engine.ids[name] for name in images if engine.ids.get(name, loaded.get(name)) != loaded.get(name)}
    if not outdated:
        return _write_result(snapshot, images, loaded, engine.ids)
    delay = retry_wait(obj, LOAD_IMAGES, snapshot.now)
    if delay:
        return WaitForChange(delay)
    if snapshot.kubeconfig is None or not snapshot.kubeconfig.fresh:
        # It tells whether the kind cluster is still this one.
        return FetchKubeconfig(claim["name"])
    return LoadImages(claim["name"], outdated)


def _write_result(
    snapshot: KindClusterSnapshot, images: list[str], loaded: Mapping[str, str], ids: Mapping[str, str]
) -> KindStep:
    missing = [name for name in images if name not in loaded]
    present = [name for name in images if name in loaded]
    if not missing:
        kept = [name for name in images if name not in ids]
        suffix = f"; no longer in the container engine: {', '.join(kept)}" if kept else ""
        return _write(snapshot, TRUE, "Loaded", f"loaded into all nodes: {', '.join(present)}{suffix}")
    message = f"missing in the container engine: {', '.join(missing)}"
    if present:
        message += f"; loaded into all nodes: {', '.join(present)}"
    return _write(snapshot, FALSE, "ImagesMissing", message)


def loaded_images(claim: Object) -> dict[str, str]:
    """Returns the ids of the images that were loaded."""
    return {image["name"]: image["id"] for image in claim.get("images") or ()}


def image_progress_step(snapshot: KindClusterSnapshot, job: JobState) -> KindStep:
    new = with_progress(snapshot.obj, job.progress)
    condition = Condition(IMAGES_LOADED, FALSE, "Loading", f"loading {', '.join(job.images)}")
    return write_step(snapshot, with_condition(new, condition, snapshot.now))


def image_result_step(snapshot: KindClusterSnapshot, job: JobState) -> KindStep:
    """The job has ended; its result is written in one status update."""
    new, claim, names = with_progress(snapshot.obj, ""), claim_of(snapshot.obj), ", ".join(job.images)
    if claim is None:
        return write_step(snapshot, new, forgets_job=True)
    if job.error is None:
        loaded = {**loaded_images(claim), **job.images}
        claim = {**claim, "images": [{"name": name, "id": id_} for name, id_ in sorted(loaded.items())]}
        status = {**{key: value for key, value in status_of(new).items() if key != "retry"}, "cluster": claim}
        entry = HistoryEntry("ImagesLoaded", f"Loaded {names} into cluster {claim['name']}")
        return write_step(
            snapshot, with_history_entry({**new, "status": status}, entry, snapshot.now), forgets_job=True
        )
    delays = snapshot.retry_delays
    retry = next_retry(new, LOAD_IMAGES, snapshot.now, delays.initial, delays.maximum)
    reason = LOAD_FAILED if job.error.reason == COMMAND_FAILED else job.error.reason
    message = f"{names} cannot be loaded: {job.error.message}"
    new = with_condition(
        {**new, "status": {**status_of(new), "retry": retry}},
        Condition(IMAGES_LOADED, FALSE, reason, message),
        snapshot.now,
    )
    return write_step(snapshot, with_history_entry(new, HistoryEntry(reason, message), snapshot.now), forgets_job=True)


def _write(snapshot: KindClusterSnapshot, status: str, reason: str, message: str) -> KindStep:
    condition = Condition(IMAGES_LOADED, status, reason, message)
    return write_step(snapshot, with_condition(snapshot.obj, condition, snapshot.now))
