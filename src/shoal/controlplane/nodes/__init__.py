"""The simulated kubelet, and in `lifecycle` what the control plane does about nodes that are in trouble or gone.

`view` follows Nodes and the Pods on them, once for all loops here; `places` says in which clusters.
"""
