"""Scheduling predicates and scores shared by the pod scheduler and the node provisioner. Pure.

`resources`: amounts as integers per resource (cpu in thousandths, the rest in units). pod_requests(pod),
allocatable(node), capacity(node), parse_amounts(list), to_quantities(amounts) -> list, add, add_to, subtract,
subtract_from, total, max_resources, fits(requests, free), insufficient_resources(requests, free).

`taints`: tolerates(toleration, taint), is_tolerated(taint, tolerations), first_untolerated(taints, tolerations,
effects=HARD_EFFECTS) -> the first blocking taint or None, count_untolerated_preferred(taints, tolerations) -> number of
PreferNoSchedule taints, is_same_taint(one, other).

`requirements`: Requirement holds the allowed values of a label (or their complement), its bounds, and whether it may be
absent: has(value), intersection, has_intersection, is_impossible, any_value(), to_expressions(); built by
new_requirement(key, operator, values). Requirements holds one per key: add, union, without, requirement_for(key),
intersects(other), matches(labels), is_compatible(incoming, allow_undefined), conflicts(incoming, allow_undefined) ->
reasons, labels(), to_expressions(); built by from_labels(labels), from_expressions(list), from_pod(spec, term=0).

`affinity`: matches_node_affinity(spec, name, labels) and preferred_weight(spec, name, labels) against an existing node;
required_node_names(spec) -> names of the only possible nodes, or None.

`podaffinity`: affinity_terms(spec, namespace) -> inter-pod terms of a pod, or None. PeerPod is a pod as seen by other
pods' terms. AffinityCounts(pod, namespace_labels) counts the relevant pods by topology domain: add(labels, peers) ->
share, subtract(share), reject_reason(labels), score(labels), topology_keys.

`topology`: spread_constraints(spec, labels, action). TopologySpread(constraints, pod): add(labels, peers, is_selected,
is_tolerating) -> share, subtract(share), reject_reason(labels), skew_score(labels), topology_keys.

`ports`: host_ports(pod), ports_conflict(requested, used). `resource_score`: resource_score(cpu, total_cpu, memory,
total_memory).
"""
