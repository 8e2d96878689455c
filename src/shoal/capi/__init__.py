"""Cluster API: reconcilers of Clusters, Machines, MachineSets, MachineDeployments and MachineHealthChecks, and
infrastructure providers.
"""
