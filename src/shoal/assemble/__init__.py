"""Assembles the programs of Shoal from its packages: servers, storage, workers, and the work behind each command.

server     the API server, hub, worker, and the controllers that run beside them storage    opens a store and the data
directory it belongs to workers    how a worker joins its hub, and the worker processes of a hub commands   what the
commands of `shoal.cli` do telemetry  metrics and traces of a process envtest    a replacement for the kube-apiserver
and etcd of envtest
"""
