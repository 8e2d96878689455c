"""Shoal as a replacement for the kube-apiserver and etcd that envtest starts: `shoal envtest` writes the two programs.

`flags` parses their flags, `apiserver` and `etcd` are the programs, `assets` writes the directory.
"""
