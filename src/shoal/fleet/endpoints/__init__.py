"""Addresses of their own for clusters: a port of the hub for each that asks for one."""
