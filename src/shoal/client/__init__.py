"""The Kubernetes API client: transports, REST verbs, watch, reflector, REST mapping and kubeconfig. All access to API
servers goes through it.
"""
