"""Computes the changes to the leaves of a Job. Pure.

A Job is divided once: its parallelism by the policy, its completions in proportion. Completions do not change any more,
because no server would allow it. What a lost cluster had not completed is created again elsewhere, as one more leaf.
The lost leaf stays, without pods, and its successes count. So each reconcile finds what is missing by adding up.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.kinds.batch import NAME_LABELS, UID_LABELS
from shoal.kinds.jobs import COMPLETE, FAILED, expiry, is_finished, is_indexed, is_suspended
from shoal.kinds.leaves import AWAY, LONGEST_LABEL, content_of, leaf_of, renewed
from shoal.kinds.workload import assigned_to, within
from shoal.objects.conditions import condition_is
from shoal.objects.errors import BadRequest
from shoal.placement.choosing import Outlook, chosen, refusal, wakes
from shoal.placement.decide import Placed
from shoal.placement.division import Seat, divide
from shoal.placement.overrides import applies, overridden
from shoal.placement.policy import NEVER
from shoal.placement.shapes import Batch
from shoal.placement.sites import NO_PART, Part, Site
from shoal.placement.splitter.outcome import Split
from shoal.placement.target import ceiling, target

Object = dict[str, Any]

GIVEN_LABELS = frozenset({*NAME_LABELS, *UID_LABELS})
"""A server sets these on the pods of a Job, from its name and uid."""
NOT_DIVIDED = (
    "the pods of a Job with completionMode Indexed are told apart by their numbers, which are not divided; "
    "strategy Duplicate runs all of it in every cluster"
)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A leaf, existing or to be created."""

    cluster: str
    name: str
    completions: int | None
    leaf: Object | None = None
    lost: bool = False
    """Nothing runs there any more, and other leaves do what it has not completed."""

    @property
    def is_finished(self) -> bool:
        return self.leaf is not None and is_finished(self.leaf)

    @property
    def succeeded(self) -> int:
        return int(((self.leaf or {}).get("status") or {}).get("succeeded") or 0)

    @property
    def has_failed(self) -> bool:
        return not self.lost and self.leaf is not None and condition_is(self.leaf, FAILED)


def split_job(
    root: Object, owned: Iterable[Object], others: Container[str], outlook: Outlook, now: float, shape: Batch
) -> Split:
    """`filtered` was computed for the clusters and the policy. Raises BadRequest for a Job that cannot be divided."""
    if is_indexed(root) and not outlook.policy.duplicate:
        raise BadRequest(NOT_DIVIDED)
    pieces = _survey(root, owned, outlook, now, shape)
    unplaced = 0
    if not is_finished(root) and not any(piece.has_failed for piece in pieces):
        made, unplaced = _missing(root, pieces, others, outlook, shape)
        pieces += made
    shares = _shares(root, pieces, outlook, shape)
    create = [_leaf(root, piece, shares[piece.name], outlook) for piece in pieces if piece.leaf is None]
    update = [] if is_finished(root) else list(_updates(root, pieces, shares, outlook))
    totals: dict[str, int] = {}
    for piece in pieces:
        if not piece.lost:
            totals[piece.cluster] = totals.get(piece.cluster, 0) + shares[piece.name]
    lost = frozenset(piece.cluster for piece in pieces if piece.lost)
    later, expires = _later(pieces, outlook, now, shape), expiry(root)
    if expires is not None:
        later = expires - now
    return Split(
        Placed(totals, lost, totals, outlook.refusals, unplaced, later),
        create=tuple(create),
        update=tuple(update),
        leaves=tuple(piece.leaf for piece in pieces if piece.leaf is not None),
        later=later,
        expired=expires is not None and expires <= now,
    )


def job_leaf_name(root: str, cluster: str, number: int = 1) -> str:
    """The pods of a Job carry its name as a label, which limits its length. A cluster may have several leaves."""
    return within(f"{root}--{cluster}" + (f"-{number}" if number > 1 else ""), LONGEST_LABEL)


# --- existing leaves ---


def _survey(root: Object, owned: Iterable[Object], outlook: Outlook, now: float, shape: Batch) -> list[_Piece]:
    found = []
    leaves = sorted(owned, key=lambda one: str(one["metadata"]["name"]))
    for leaf in leaves:
        cluster = _cluster_of(leaf, root, outlook.sites, len(leaves))
        lost = _is_lost(leaf, outlook.sites.get(cluster), outlook, now, shape)
        found.append(_Piece(cluster, leaf["metadata"]["name"], shape.completions(leaf), leaf, lost))
    return found


def _cluster_of(leaf: Object, root: Object, sites: Iterable[str], count: int) -> str:
    """Returns the cluster of its label, or of its name where somebody changed the label."""
    name, labelled = leaf["metadata"]["name"], assigned_to(leaf)
    for cluster in (labelled, *sites):
        if any(job_leaf_name(root["metadata"]["name"], cluster, number) == name for number in range(1, count + 2)):
            return cluster
    return labelled


def _is_lost(leaf: Object, site: Site | None, outlook: Outlook, now: float, shape: Batch) -> bool:
    """It stays lost when its cluster comes back: other leaves do its work."""
    if AWAY in (leaf["metadata"].get("annotations") or {}) or site is None:
        return True
    if is_finished(leaf):
        return False
    why = refusal(site, outlook.policy, _part(leaf, shape), now)
    return why is not None and not why.keeps


def _part(leaf: Object, shape: Batch) -> Part:
    """A leaf that waits for its turn counts as a share, too."""
    part = shape.part(leaf)
    return Part(max(part.replicas, 1), part.available)


def _later(pieces: Sequence[_Piece], outlook: Outlook, now: float, shape: Batch) -> float | None:
    waking = [
        wakes(outlook.sites[piece.cluster], outlook.policy, _part(piece.leaf, shape), now)
        for piece in pieces
        if piece.leaf is not None and not piece.lost and not piece.is_finished
    ]
    if outlook.until < NEVER:
        waking.append(outlook.until - now)
    return min((after for after in waking if after is not None), default=None)


# --- new leaves ---


def _missing(
    root: Object, pieces: Sequence[_Piece], others: Container[str], outlook: Outlook, shape: Batch
) -> tuple[list[_Piece], int]:
    """Returns new leaves for work that no leaf does, and how much parallelism has no cluster."""
    policy, completions = outlook.policy, shape.completions(root)
    using = chosen(outlook.open({}, outlook.refusals), policy, {})
    names = {piece.name for piece in pieces}
    if policy.duplicate:
        there = {piece.cluster for piece in pieces}
        new: dict[str, int | None] = {site.name: completions for site in using if site.name not in there}
        return _named(root, new, names, others), int(not using and not pieces)
    left = _left(root, pieces, shape)
    workers = shape.parallelism(root)
    if completions:
        # In proportion to the completions that are created again.
        workers = min(left, max(workers * left // completions, 1)) if workers else 0
    if completions == 0 and not pieces and using:
        return _named(root, {using[0].name: 0}, names, others), 0
    if not left or not workers:
        return [], 0
    shares = {name: share for name, share in target(workers, using, policy, {}, shape.asks(root)).items() if share}
    if not shares:
        return [], workers
    if completions is None:
        new = dict.fromkeys(shares)
    else:
        new = dict(divide(left, [Seat(name, share) for name, share in shares.items()]))
    return _named(root, new, names, others), 0


def _left(root: Object, pieces: Sequence[_Piece], shape: Batch) -> int:
    """Returns the completions that no leaf covers. In a work queue the other leaves do what a lost one has not done."""
    completions = shape.completions(root)
    if completions is None:
        done = any(
            not piece.lost or (piece.leaf is not None and condition_is(piece.leaf, COMPLETE)) for piece in pieces
        )
        return 0 if done else shape.parallelism(root)
    found = sum(min(p.succeeded, p.completions or 0) if p.lost else (p.completions or 0) for p in pieces)
    return max(completions - found, 0)


def _named(root: Object, new: dict[str, int | None], names: Container[str], others: Container[str]) -> list[_Piece]:
    found = []
    for cluster, completions in new.items():
        number = 1
        while (name := job_leaf_name(root["metadata"]["name"], cluster, number)) in names or name in others:
            number += 1
        found.append(_Piece(cluster, name, completions))
    return found


# --- parallelism ---


def _shares(root: Object, pieces: Sequence[_Piece], outlook: Outlook, shape: Batch) -> dict[str, int]:
    """Divides all of the root's parallelism among active leaves; when one finishes, the others get its share. If one
    has failed, the Job has, and nothing more is started.
    """
    running = [piece for piece in pieces if not piece.lost and not piece.is_finished]
    shares = {piece.name: _held(piece, shape) if piece.is_finished and not piece.lost else 0 for piece in pieces}
    if any(piece.has_failed for piece in pieces):
        return shares
    if outlook.policy.duplicate:
        return shares | dict.fromkeys((piece.name for piece in running), shape.parallelism(root))
    asks = shape.asks(root)
    seats = [_seat(piece, outlook, asks, shape) for piece in running]
    return shares | divide(shape.parallelism(root), seats)


def _seat(piece: _Piece, outlook: Outlook, asks: dict[str, int], shape: Batch) -> Seat:
    site = outlook.sites[piece.cluster]
    part = shape.part(piece.leaf) if piece.leaf is not None else NO_PART
    weight: float = outlook.policy.weight_of(site.name, site.labels) if piece.completions is None else piece.completions
    most = max(ceiling(site, outlook.policy, part, asks), 1)
    if piece.completions is not None:
        most = min(most, piece.completions)
    return Seat(piece.name, max(weight, 1), min(1, most), most, _held(piece, shape))


def _held(piece: _Piece, shape: Batch) -> int:
    return shape.part(piece.leaf).replicas if piece.leaf is not None else 0


# --- leaves ---


def _updates(root: Object, pieces: Sequence[_Piece], shares: dict[str, int], outlook: Outlook) -> Iterator[Object]:
    for piece in pieces:
        leaf = piece.leaf
        if leaf is None or "deletionTimestamp" in leaf["metadata"] or (piece.is_finished and not piece.lost):
            continue
        labels = outlook.sites[piece.cluster].labels if piece.cluster in outlook.sites else {}
        wanted = _leaf(root, piece, shares[piece.name], outlook)
        changed = renewed(leaf, wanted, defaulted=not applies(outlook.policy, piece.cluster, labels))
        if changed is not None:
            yield changed


def _leaf(root: Object, piece: _Piece, parallelism: int, outlook: Outlook) -> Object:
    source = {**root, "metadata": {**root["metadata"], "labels": _own(root["metadata"].get("labels") or {}, root)}}
    content = _content(root, piece, parallelism)
    made = leaf_of(source, piece.cluster, content, share=parallelism, away=piece.lost, name=piece.name)
    site = outlook.sites.get(piece.cluster)
    if site is not None and not _is_fixed(root, piece):
        made = overridden(made, outlook.policy, piece.cluster, site.labels)
    return made


def _content(root: Object, piece: _Piece, parallelism: int) -> Object:
    """The root decides its own lifetime, so a leaf has no TTL: it would be created, and run, again."""
    spec = {key: value for key, value in root["spec"].items() if key not in ("completions", "ttlSecondsAfterFinished")}
    spec["parallelism"] = parallelism
    if piece.completions is not None:
        spec["completions"] = piece.completions
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        spec["template"] = _relabelled(spec["template"], _own(_labels(root), root))
    if piece.leaf is not None:
        spec |= _given(spec, root, piece)
    return {**content_of(root), "spec": spec}


def _given(spec: Object, root: Object, piece: _Piece) -> Object:
    """Returns the fields that the leaf's server has set, and those that are immutable."""
    leaf: Object = piece.leaf or {}
    given = {"selector": leaf["spec"]["selector"]} if "selector" in leaf["spec"] else {}
    if _is_fixed(root, piece):
        return {**given, "template": leaf["spec"]["template"]}
    labels = {key: value for key, value in _labels(leaf).items() if key in GIVEN_LABELS}
    return {**given, "template": _relabelled(spec["template"], {**_labels({"spec": spec}), **labels})}


def _is_fixed(root: Object, piece: _Piece) -> bool:
    """True if its pod template cannot be changed: only that of a suspended Job can."""
    return piece.leaf is not None and not (is_suspended(root) and is_suspended(piece.leaf))


def _own(labels: dict[str, str], root: Object) -> dict[str, str]:
    """Removes the labels of the root's server."""
    if root["spec"].get("manualSelector"):
        return labels
    return {key: value for key, value in labels.items() if key not in GIVEN_LABELS}


def _labels(job: Object) -> dict[str, str]:
    """Returns the labels of its pods."""
    found: dict[str, str] = (job["spec"]["template"].get("metadata") or {}).get("labels") or {}
    return found


def _relabelled(template: Object, labels: dict[str, str]) -> Object:
    return {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}
