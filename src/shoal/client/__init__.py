"""The only door to any API server: transport, requests, watch, reflector, kubeconfig."""
