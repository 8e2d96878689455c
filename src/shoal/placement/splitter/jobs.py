"""Computes the changes to the leaves of a Job. Pure.

A Job is divided once: its parallelism by the policy, its completions in proportion. Completions do not change any more,
because no server would allow it. What a lost cluster had not completed is created again elsewhere, as one more leaf.
The lost leaf stays, without pods, and its successes count. So each reconcile finds what is missing by adding up.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fit.room import PodDemand
from shoal.kinds.batch.job import COMPLETE, FAILED, expiry_time, is_finished, is_indexed, is_suspended
from shoal.kinds.batch.job_defaults import CONTROLLER_UID_LABELS, JOB_NAME_LABELS
from shoal.kinds.workload.leaf import EVACUATED_ANNOTATION, MAX_LABEL_LENGTH, content_of, desired_leaf, new_leaf
from shoal.kinds.workload.workloadcluster import assigned_cluster, truncated_name
from shoal.objects.conditions import condition_is
from shoal.objects.errors import BadRequest
from shoal.placement.assignment import assign_replicas, max_replicas
from shoal.placement.cluster_info import NO_SHARE, ClusterInfo, CurrentShare
from shoal.placement.decide import PlacementDecision
from shoal.placement.division import ShareBounds, divide_replicas
from shoal.placement.filter import (
    FilteredClusters,
    filter_cluster,
    room_failures,
    seconds_until_change,
    select_clusters,
)
from shoal.placement.interpreter import JobInterpreter
from shoal.placement.overrides import apply_overrides, has_overrides
from shoal.placement.policy import NEVER
from shoal.placement.splitter.leaf_changes import LeafChanges

Object = dict[str, Any]

SERVER_LABELS = frozenset({*JOB_NAME_LABELS, *CONTROLLER_UID_LABELS})
"""A server sets these on the pods of a Job, from its name and uid."""
INDEXED_NOT_DIVIDED = (
    "a Job with completionMode Indexed cannot be divided, because its pods are identified by completion index; "
    "strategy Duplicate runs the whole Job in every cluster"
)


@dataclass(frozen=True, slots=True)
class _JobLeaf:
    """A leaf, existing or to be created."""

    cluster: str
    name: str
    completions: int | None
    leaf: Object | None = None
    is_lost: bool = False
    """Nothing runs there any more, and other leaves do what it has not completed."""

    @property
    def is_finished(self) -> bool:
        return self.leaf is not None and is_finished(self.leaf)

    @property
    def succeeded_count(self) -> int:
        return int(((self.leaf or {}).get("status") or {}).get("succeeded") or 0)

    @property
    def has_failed(self) -> bool:
        return not self.is_lost and self.leaf is not None and condition_is(self.leaf, FAILED)


def compute_job_changes(
    root: Object,
    existing: Iterable[Object],
    foreign_names: Container[str],
    filtered: FilteredClusters,
    now: float,
    interpreter: JobInterpreter,
) -> LeafChanges:
    """`filtered` was computed for the clusters and the policy. Raises BadRequest for a Job that cannot be divided."""
    if is_indexed(root) and not filtered.policy.is_duplicate:
        raise BadRequest(INDEXED_NOT_DIVIDED)
    job_leaves = _existing_leaves(root, existing, filtered, now, interpreter)
    unplaced = 0
    if not is_finished(root) and not any(job_leaf.has_failed for job_leaf in job_leaves):
        new_leaves, unplaced = _new_leaves(root, job_leaves, foreign_names, filtered, interpreter)
        job_leaves += new_leaves
    shares = _parallelism_shares(root, job_leaves, filtered, interpreter)
    create = [
        _leaf(root, job_leaf, shares[job_leaf.name], filtered) for job_leaf in job_leaves if job_leaf.leaf is None
    ]
    update = [] if is_finished(root) else list(_updates(root, job_leaves, shares, filtered))
    parallelism_by_cluster: dict[str, int] = {}
    for job_leaf in job_leaves:
        if not job_leaf.is_lost:
            parallelism_by_cluster[job_leaf.cluster] = (
                parallelism_by_cluster.get(job_leaf.cluster, 0) + shares[job_leaf.name]
            )
    lost_clusters = frozenset(job_leaf.cluster for job_leaf in job_leaves if job_leaf.is_lost)
    requeue_after, expires_at = _requeue_after(job_leaves, filtered, now, interpreter), expiry_time(root)
    if expires_at is not None:
        requeue_after = expires_at - now
    return LeafChanges(
        PlacementDecision(
            parallelism_by_cluster, lost_clusters, parallelism_by_cluster, filtered.failures, unplaced, requeue_after
        ),
        create=tuple(create),
        update=tuple(update),
        existing=tuple(job_leaf.leaf for job_leaf in job_leaves if job_leaf.leaf is not None),
        requeue_after=requeue_after,
        is_expired=expires_at is not None and expires_at <= now,
    )


def job_leaf_name(root: str, cluster: str, number: int = 1) -> str:
    """The pods of a Job carry its name as a label, which limits its length. A cluster may have several leaves."""
    return truncated_name(f"{root}--{cluster}" + (f"-{number}" if number > 1 else ""), MAX_LABEL_LENGTH)


# --- existing leaves ---


def _existing_leaves(
    root: Object, existing: Iterable[Object], filtered: FilteredClusters, now: float, interpreter: JobInterpreter
) -> list[_JobLeaf]:
    job_leaves = []
    leaves = sorted(existing, key=lambda one: str(one["metadata"]["name"]))
    for leaf in leaves:
        cluster = _cluster_of(leaf, root, filtered.clusters, len(leaves))
        is_lost = _is_lost(leaf, filtered.clusters.get(cluster), filtered, now, interpreter)
        job_leaves.append(_JobLeaf(cluster, leaf["metadata"]["name"], interpreter.completions_of(leaf), leaf, is_lost))
    return job_leaves


def _cluster_of(leaf: Object, root: Object, clusters: Iterable[str], count: int) -> str:
    """Returns the cluster of its label, or of its name where somebody changed the label."""
    name, labelled_cluster = leaf["metadata"]["name"], assigned_cluster(leaf)
    for cluster in (labelled_cluster, *clusters):
        if any(job_leaf_name(root["metadata"]["name"], cluster, number) == name for number in range(1, count + 2)):
            return cluster
    return labelled_cluster


def _is_lost(
    leaf: Object, cluster_info: ClusterInfo | None, filtered: FilteredClusters, now: float, interpreter: JobInterpreter
) -> bool:
    """It stays lost when its cluster comes back: other leaves do its work."""
    if EVACUATED_ANNOTATION in (leaf["metadata"].get("annotations") or {}) or cluster_info is None:
        return True
    if is_finished(leaf):
        return False
    failure = filter_cluster(cluster_info, filtered.policy, _current_share(leaf, interpreter), now, filtered.api)
    return failure is not None and not failure.keeps_replicas


def _current_share(leaf: Object, interpreter: JobInterpreter) -> CurrentShare:
    """A leaf that waits for its turn counts as a share, too."""
    share = interpreter.current_share_of(leaf)
    return CurrentShare(max(share.replicas, 1), share.available)


def _requeue_after(
    job_leaves: Sequence[_JobLeaf], filtered: FilteredClusters, now: float, interpreter: JobInterpreter
) -> float | None:
    delays = [
        seconds_until_change(
            filtered.clusters[piece.cluster], filtered.policy, _current_share(piece.leaf, interpreter), now
        )
        for piece in job_leaves
        if piece.leaf is not None and not piece.is_lost and not piece.is_finished
    ]
    if filtered.valid_until < NEVER:
        delays.append(filtered.valid_until - now)
    return min((delay for delay in delays if delay is not None), default=None)


# --- new leaves ---


def _new_leaves(
    root: Object,
    job_leaves: Sequence[_JobLeaf],
    foreign_names: Container[str],
    filtered: FilteredClusters,
    interpreter: JobInterpreter,
) -> tuple[list[_JobLeaf], int]:
    """Returns new leaves for work that no leaf does, and how much parallelism has no cluster."""
    policy, completions, demand = filtered.policy, interpreter.completions_of(root), interpreter.demand_of(root)
    failures = filtered.failures | room_failures(filtered, filtered.failures, {}, demand)
    selected = select_clusters(filtered.feasible_for({}, failures), policy, {})
    names = {piece.name for piece in job_leaves}
    if policy.is_duplicate:
        covered = {piece.cluster for piece in job_leaves}
        completions_by_cluster: dict[str, int | None] = {
            site.name: completions for site in selected if site.name not in covered
        }
        return _name_leaves(root, completions_by_cluster, names, foreign_names), int(not selected and not job_leaves)
    missing = _missing_completions(root, job_leaves, interpreter)
    parallelism = interpreter.parallelism_of(root)
    if completions:
        # In proportion to the completions that are created again.
        parallelism = min(missing, max(parallelism * missing // completions, 1)) if parallelism else 0
    if completions == 0 and not job_leaves and selected:
        return _name_leaves(root, {selected[0].name: 0}, names, foreign_names), 0
    if not missing or not parallelism:
        return [], 0
    shares = {
        name: share for name, share in assign_replicas(parallelism, selected, policy, {}, demand).items() if share
    }
    if not shares:
        return [], parallelism
    if completions is None:
        completions_by_cluster = dict.fromkeys(shares)
    else:
        completions_by_cluster = dict(
            divide_replicas(missing, [ShareBounds(name, share) for name, share in shares.items()])
        )
    return _name_leaves(root, completions_by_cluster, names, foreign_names), 0


def _missing_completions(root: Object, job_leaves: Sequence[_JobLeaf], interpreter: JobInterpreter) -> int:
    """Returns the completions that no leaf covers. In a work queue the other leaves do what a lost one has not done."""
    completions = interpreter.completions_of(root)
    if completions is None:
        done = any(
            not piece.is_lost or (piece.leaf is not None and condition_is(piece.leaf, COMPLETE)) for piece in job_leaves
        )
        return 0 if done else interpreter.parallelism_of(root)
    covered = sum(min(p.succeeded_count, p.completions or 0) if p.is_lost else (p.completions or 0) for p in job_leaves)
    return max(completions - covered, 0)


def _name_leaves(
    root: Object, completions_by_cluster: dict[str, int | None], names: Container[str], foreign_names: Container[str]
) -> list[_JobLeaf]:
    job_leaves = []
    for cluster, completions in completions_by_cluster.items():
        number = 1
        while (name := job_leaf_name(root["metadata"]["name"], cluster, number)) in names or name in foreign_names:
            number += 1
        job_leaves.append(_JobLeaf(cluster, name, completions))
    return job_leaves


# --- parallelism ---


def _parallelism_shares(
    root: Object, job_leaves: Sequence[_JobLeaf], filtered: FilteredClusters, interpreter: JobInterpreter
) -> dict[str, int]:
    """Divides all of the root's parallelism among active leaves; when one finishes, the others get its share. If one
    has failed, the Job has, and nothing more is started.
    """
    active = [job_leaf for job_leaf in job_leaves if not job_leaf.is_lost and not job_leaf.is_finished]
    shares = {
        job_leaf.name: _current_parallelism(job_leaf, interpreter)
        if job_leaf.is_finished and not job_leaf.is_lost
        else 0
        for job_leaf in job_leaves
    }
    if any(job_leaf.has_failed for job_leaf in job_leaves):
        return shares
    if filtered.policy.is_duplicate:
        return shares | dict.fromkeys((job_leaf.name for job_leaf in active), interpreter.parallelism_of(root))
    demand = interpreter.demand_of(root)
    bounds = [_share_bounds(job_leaf, filtered, demand, interpreter) for job_leaf in active]
    return shares | divide_replicas(interpreter.parallelism_of(root), bounds)


def _share_bounds(
    job_leaf: _JobLeaf, filtered: FilteredClusters, demand: PodDemand, interpreter: JobInterpreter
) -> ShareBounds:
    cluster_info = filtered.clusters[job_leaf.cluster]
    current_share = interpreter.current_share_of(job_leaf.leaf) if job_leaf.leaf is not None else NO_SHARE
    weight: float = (
        filtered.policy.weight_of(cluster_info.name, cluster_info.labels)
        if job_leaf.completions is None
        else job_leaf.completions
    )
    policy = filtered.policy
    maximum = (
        max_replicas(cluster_info, policy, current_share, demand)
        if policy.depends_on_capacity
        else policy.maximum_of(cluster_info.name, cluster_info.labels)
    )
    maximum = max(maximum, 1)
    if job_leaf.completions is not None:
        maximum = min(maximum, job_leaf.completions)
    return ShareBounds(
        job_leaf.name, max(weight, 1), min(1, maximum), maximum, _current_parallelism(job_leaf, interpreter)
    )


def _current_parallelism(job_leaf: _JobLeaf, interpreter: JobInterpreter) -> int:
    return interpreter.current_share_of(job_leaf.leaf).replicas if job_leaf.leaf is not None else 0


# --- leaves ---


def _updates(
    root: Object, job_leaves: Sequence[_JobLeaf], shares: dict[str, int], filtered: FilteredClusters
) -> Iterator[Object]:
    for job_leaf in job_leaves:
        leaf = job_leaf.leaf
        if leaf is None or "deletionTimestamp" in leaf["metadata"] or (job_leaf.is_finished and not job_leaf.is_lost):
            continue
        labels = filtered.clusters[job_leaf.cluster].labels if job_leaf.cluster in filtered.clusters else {}
        desired = _leaf(root, job_leaf, shares[job_leaf.name], filtered)
        updated = desired_leaf(leaf, desired, defaulted=not has_overrides(filtered.policy, job_leaf.cluster, labels))
        if updated is not None:
            yield updated


def _leaf(root: Object, job_leaf: _JobLeaf, parallelism: int, filtered: FilteredClusters) -> Object:
    source = {
        **root,
        "metadata": {**root["metadata"], "labels": _without_server_labels(root["metadata"].get("labels") or {}, root)},
    }
    content = _leaf_content(root, job_leaf, parallelism)
    leaf = new_leaf(
        source, job_leaf.cluster, content, replicas=parallelism, evacuated=job_leaf.is_lost, name=job_leaf.name
    )
    cluster_info = filtered.clusters.get(job_leaf.cluster)
    if cluster_info is not None and not _is_template_immutable(root, job_leaf):
        leaf = apply_overrides(leaf, filtered.policy, job_leaf.cluster, cluster_info.labels)
    return leaf


def _leaf_content(root: Object, job_leaf: _JobLeaf, parallelism: int) -> Object:
    """The root decides its own lifetime, so a leaf has no TTL: it would be created, and run, again."""
    spec = {key: value for key, value in root["spec"].items() if key not in ("completions", "ttlSecondsAfterFinished")}
    spec["parallelism"] = parallelism
    if job_leaf.completions is not None:
        spec["completions"] = job_leaf.completions
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        spec["template"] = _with_labels(spec["template"], _without_server_labels(_pod_labels(root), root))
    if job_leaf.leaf is not None:
        spec |= _server_fields(spec, root, job_leaf)
    return {**content_of(root), "spec": spec}


def _server_fields(spec: Object, root: Object, job_leaf: _JobLeaf) -> Object:
    """Returns the fields that the leaf's server has set, and those that are immutable."""
    leaf: Object = job_leaf.leaf or {}
    server_fields = {"selector": leaf["spec"]["selector"]} if "selector" in leaf["spec"] else {}
    if _is_template_immutable(root, job_leaf):
        return {**server_fields, "template": leaf["spec"]["template"]}
    labels = {key: value for key, value in _pod_labels(leaf).items() if key in SERVER_LABELS}
    return {**server_fields, "template": _with_labels(spec["template"], {**_pod_labels({"spec": spec}), **labels})}


def _is_template_immutable(root: Object, job_leaf: _JobLeaf) -> bool:
    """True if its pod template cannot be changed: only that of a suspended Job can."""
    return job_leaf.leaf is not None and not (is_suspended(root) and is_suspended(job_leaf.leaf))


def _without_server_labels(labels: dict[str, str], root: Object) -> dict[str, str]:
    """Removes the labels of the root's server."""
    if root["spec"].get("manualSelector"):
        return labels
    return {key: value for key, value in labels.items() if key not in SERVER_LABELS}


def _pod_labels(job: Object) -> dict[str, str]:
    """Returns the labels of its pods."""
    labels: dict[str, str] = (job["spec"]["template"].get("metadata") or {}).get("labels") or {}
    return labels


def _with_labels(template: Object, labels: dict[str, str]) -> Object:
    return {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}
