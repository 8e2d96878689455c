"""The same requests at kube-apiserver and at Shoal."""
