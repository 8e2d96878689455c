"""The kinds Shoal serves, one package per API group: names, accessors over the wire dict, defaults, validation,
warnings, strategies and printer columns. Pure: no I/O, no clock, no randomness.

A group has its strategies and printer columns in the tables `STRATEGIES` and `COLUMNS`: of its modules `strategy` and
`columns`, or of its main module if the group is small. `apiserver.registry.builtins` collects the tables.

`crds/` holds Shoal's own CustomResourceDefinitions, `data/` the generated tables of upstream Kubernetes.
"""
