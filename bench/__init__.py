"""Shoal beside kube-apiserver with etcd, on the same machine with the same requests (`make bench`)."""
