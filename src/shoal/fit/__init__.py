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
`affinity`      selected(spec, name, labels), preference(spec, name, labels): against a node that exists
`ports`         host_ports(pod), clash(wanted, used)
"""
