"""Would it fit? The questions that the pod scheduler and the node provisioner both ask. Pure.

`resources`     amounts as whole numbers per resource (cpu in thousandths, the rest in units):
                pod_requests(pod), allocatable(node), capacity(node), amounts(list), quantities(amounts) -> list,
                add, add_to, subtract, subtract_from, total, highest, fits(wanted, free), lacking(wanted, free)
`taints`        tolerates(toleration, taint), tolerated(taint, tolerations),
                untolerated(taints, tolerations, effects=HARD) -> the first taint in the way or None,
                intolerances(taints, tolerations) -> how many PreferNoSchedule taints, same(one, other)
`requirements`  Requirement: the values (or all but some) a label may have, its bounds, whether it may be absent;
                has(value), intersection, meets, impossible, any(), wire(); made by requirement(key, operator, values)
                Requirements: one per key; add, union, without, of(key), intersects(other), matches(labels),
                compatible(wanted, undefined), conflicts(wanted, undefined) -> sentences, labels(), wire();
                made by from_labels(labels), from_expressions(list), from_pod(spec, term=0)
`affinity`      selected(spec, name, labels), preference(spec, name, labels): against a node that exists;
                pinned(spec) -> the names of the only nodes it may be, or None
`podaffinity`   terms(spec, namespace) -> what a pod says of other pods, or None; Peer: a pod as others see it;
                Neighbours(me, namespace_labels): the pods that matter to one, by topology domain: add(labels, peers)
                -> share, take(share), obstacle(labels) -> why not there, score(labels), keys
`topology`      constraints(spec, labels, action); Spread(constraints, me): add(labels, peers, selected, tolerated)
                -> share, take(share), obstacle(labels), weight(labels), keys
`ports`         host_ports(pod), clash(wanted, used)
"""
