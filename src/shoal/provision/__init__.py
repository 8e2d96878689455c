"""Nodes just in time: pods that find no room become NodeClaims, Machines and Nodes of the cheapest type that fits."""
