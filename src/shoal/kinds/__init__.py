"""The kinds Shoal serves, one package per API group: names, accessors over the wire dict, defaults, validation and
warnings. Pure: no I/O, no clock, no randomness.

`crds/` holds Shoal's own CustomResourceDefinitions, `data/` the generated tables of upstream Kubernetes.
"""
