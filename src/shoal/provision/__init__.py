"""Node provisioning (Karpenter): unschedulable pods become NodeClaims, Machines and Nodes of the cheapest type that
fits.
"""
