"""Controllers that every logical cluster needs: kube-controller-manager's, a scheduler and simulated kubelets, as
clients of the API.
"""
