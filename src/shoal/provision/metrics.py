"""Metrics of the provisioner, under the names that Karpenter's dashboards use. The metric types are in
`telemetry.metrics`.

Counters, gauges and histograms are updated where the event happens: `NODES_CREATED.inc(cluster, nodepool=pool,
zone=zone)`. Metrics of class `Lookup` are computed from ClusterState at scrape time. Upstream's summaries are
histograms here.
"""

from __future__ import annotations

from shoal.telemetry.metrics import Counter, Gauge, Histogram, Metric, MetricFunc, render_text

_ALL: list[Metric] = []

# fmt: off
SECONDS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75,
    2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60, 120, 150, 300, 450, 600,
)
# fmt: on
_HOUR, _DAY = 3600.0, 86400.0
LIFETIMES = (
    *(_HOUR * part for part in (0.25, 0.5, 0.75, 1, 2, 4, 6, 8, 10, 12, 16, 20)),
    *(_DAY * days for days in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
)


def _counter(name: str, text: str, *labels: str) -> Counter:
    meter = Counter(f"karpenter_{name}", text, labels)
    _ALL.append(meter)
    return meter


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    meter = Gauge(name if name.startswith("shoal_") else f"karpenter_{name}", text, labels)
    _ALL.append(meter)
    return meter


def _seconds(name: str, text: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
    meter = Histogram(f"karpenter_{name}", text, labels, buckets)
    _ALL.append(meter)
    return meter


def _lookup(name: str, text: str, *labels: str) -> MetricFunc:
    meter = MetricFunc(name if name.startswith("shoal_") else f"karpenter_{name}", text, labels)
    _ALL.append(meter)
    return meter


NODECLAIMS_CREATED = _counter(
    "nodeclaims_created_total", "Number of NodeClaims created.", "reason", "nodepool", "min_values_relaxed"
)
NODECLAIMS_TERMINATED = _counter(
    "nodeclaims_terminated_total", "Number of NodeClaims terminated.", "nodepool", "capacity_type", "zone"
)
NODECLAIMS_DISRUPTED = _counter(
    "nodeclaims_disrupted_total",
    "Number of NodeClaims deleted by the provisioner.",
    "reason",
    "nodepool",
    "capacity_type",
)
NODECLAIMS_UNHEALTHY_DISRUPTED = _counter(
    "nodeclaims_unhealthy_disrupted_total",
    "Number of NodeClaims deleted because of an unhealthy condition of their node.",
    "condition",
    "nodepool",
    "capacity_type",
    "image_id",
)
NODECLAIMS_TERMINATION_SECONDS = _seconds(
    "nodeclaims_termination_duration_seconds",
    "Time from the deletion request of a NodeClaim to its removal.",
    "nodepool",
)
NODECLAIMS_INSTANCE_TERMINATION_SECONDS = _seconds(
    "nodeclaims_instance_termination_duration_seconds",
    "Time from the deletion request of an instance to its termination.",
    "nodepool",
)

NODES_CREATED = _counter("nodes_created_total", "Number of nodes registered.", "nodepool", "zone")
NODES_TERMINATED = _counter("nodes_terminated_total", "Number of nodes terminated.", "nodepool", "zone")
NODES_DRAINED = _counter("nodes_drained_total", "Number of nodes drained.", "nodepool")
NODES_TERMINATION_SECONDS = _seconds(
    "nodes_termination_duration_seconds", "Time from the deletion request of a node to its removal.", "nodepool"
)
NODES_LIFETIME_SECONDS = _seconds(
    "nodes_lifetime_duration_seconds", "Time from the creation of a node to its removal.", "nodepool", buckets=LIFETIMES
)
_OF_NODE = ("node_name", "nodepool", "resource_type")
NODES_ALLOCATABLE = _lookup("nodes_allocatable", "Allocatable resources of a node.", *_OF_NODE)
NODES_POD_REQUESTS = _lookup("nodes_total_pod_requests", "Resource requests of the pods of a node.", *_OF_NODE)
NODES_DAEMON_REQUESTS = _lookup(
    "nodes_total_daemon_requests", "Resource requests of the DaemonSet pods of a node.", *_OF_NODE
)
NODES_POD_LIMITS = _lookup("nodes_total_pod_limits", "Resource limits of the pods of a node.", *_OF_NODE)
NODES_DAEMON_LIMITS = _lookup(
    "nodes_total_daemon_limits", "Resource limits of the DaemonSet pods of a node.", *_OF_NODE
)
NODES_OVERHEAD = _lookup("nodes_system_overhead", "Difference between capacity and allocatable of a node.", *_OF_NODE)
NODES_AGE = _lookup("nodes_current_lifetime_seconds", "Age of a node.", "node_name", "nodepool")

NODEPOOLS_USAGE = _lookup("nodepools_usage", "Resources of the nodes of a NodePool.", "nodepool", "resource_type")
NODEPOOLS_LIMIT = _lookup("nodepools_limit", "Resource limits of a NodePool.", "nodepool", "resource_type")
NODEPOOLS_ALLOWED_DISRUPTIONS = _gauge(
    "nodepools_allowed_disruptions", "Number of nodes of a NodePool that may be disrupted now.", "nodepool", "reason"
)
NODEPOOLS_CONSUMING_BUDGETS = _gauge(
    "nodepools_nodes_consuming_budgets",
    "Number of nodes of a NodePool that count against its disruption budgets now.",
    "nodepool",
    "reason",
)
NODEPOOLS_COST = _lookup("nodepools_cost_total", "Cost per hour of the nodes of a NodePool.", "nodepool")

PODS_BOUND_SECONDS = _seconds("pods_bound_duration_seconds", "Time from the creation of a pod until it is bound.")
PODS_STARTUP_SECONDS = _seconds("pods_startup_duration_seconds", "Time from the creation of a pod until it is ready.")
PODS_DECISION_SECONDS = _seconds(
    "pods_scheduling_decision_duration_seconds",
    "Time from the first observation of a pending pod to its scheduling decision.",
)
PODS_EVICTION_REQUESTS = _counter("pods_eviction_requests_total", "Number of eviction requests.", "code")
PODS_DRAINED = _counter("pods_drained_total", "Number of pods evicted from terminating nodes.", "reason")

SCHEDULING_SECONDS = _seconds(
    "scheduler_scheduling_duration_seconds", "Duration of a scheduling simulation.", "controller"
)
QUEUE_DEPTH = _gauge("scheduler_queue_depth", "Number of pods in the current scheduling simulation.", "controller")
UNSCHEDULABLE_PODS = _gauge(
    "scheduler_unschedulable_pods_count", "Number of pods for which no node can be provisioned.", "controller"
)
UNFINISHED_WORK_SECONDS = _lookup(
    "scheduler_unfinished_work_seconds", "Duration so far of the scheduling simulation in progress.", "controller"
)
IGNORED_PODS = _gauge("scheduler_ignored_pods_count", "Number of pending pods that the provisioner ignores.")

EVALUATION_SECONDS = _seconds(
    "voluntary_disruption_decision_evaluation_duration_seconds",
    "Duration of a disruption evaluation.",
    "reason",
    "consolidation_type",
)
DECISIONS = _counter(
    "voluntary_disruption_decisions_total",
    "Number of disruption decisions.",
    "decision",
    "reason",
    "consolidation_type",
)
ELIGIBLE_NODES = _gauge("voluntary_disruption_eligible_nodes", "Number of nodes eligible for disruption.", "reason")
FAILED_VALIDATIONS = _counter(
    "voluntary_disruption_failed_validations_total",
    "Number of candidates whose decision failed validation.",
    "consolidation_type",
)
CONSOLIDATION_TIMEOUTS = _counter(
    "voluntary_disruption_consolidation_timeouts_total",
    "Number of disruption evaluations that ended at their time limit.",
    "consolidation_type",
)
QUEUE_FAILURES = _counter(
    "voluntary_disruption_queue_failures_total",
    "Number of failed replacements of disruption decisions.",
    "decision",
    "reason",
    "consolidation_type",
)

PROVIDER_SECONDS = _seconds(
    "cloudprovider_duration_seconds", "Duration of a cloud provider call.", "controller", "method", "provider"
)
PROVIDER_ERRORS = _counter(
    "cloudprovider_errors_total", "Number of failed cloud provider calls.", "controller", "method", "provider", "error"
)

STATE_SYNCED = _lookup("cluster_state_synced", "1 if the cluster state is synced, 0 otherwise.")
STATE_UNSYNCED_SECONDS = _lookup(
    "cluster_state_unsynced_time_seconds", "Time for which the cluster state has not been synced."
)
STATE_NODES = _lookup("cluster_state_node_count", "Number of nodes in the cluster state.")
UTILIZATION = _lookup(
    "cluster_utilization_percent", "Ratio of pod requests to allocatable resources, in percent.", "resource_type"
)

NODES_COST = _lookup("shoal_provision_node_cost", "Cost per hour of a node.", "node_name", "nodepool")
PLAN_COST = _gauge("shoal_provision_plan_cost", "Cost per hour of the nodes of the last plan.")
PLAN_BOUND = _gauge("shoal_provision_plan_bound", "Lower bound of the cost per hour of any plan for the same pods.")
PLAN_GAP_RATIO = _gauge(
    "shoal_provision_plan_gap_ratio", "Cost of the last plan divided by its lower bound, minus one."
)


def render(only: str | None = None) -> str:
    """Text for /metrics: all clusters, or only one."""
    lines = render_text(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""


def forget_pool(cluster: str, pool: str) -> None:
    """Drops the gauges of a deleted NodePool. Counters keep their values."""
    for meter in _ALL:
        if isinstance(meter, Gauge):
            meter.delete_partial_match(cluster, {"nodepool": pool})
