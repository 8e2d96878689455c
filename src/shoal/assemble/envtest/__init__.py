"""Shoal in the place of the kube-apiserver and etcd that envtest starts: `shoal envtest` writes the two programs.

`flags` reads what they are given, `apiserver` and `etcd` are what runs, `assets` writes the directory.
"""
