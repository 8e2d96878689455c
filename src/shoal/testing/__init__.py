"""Clusters for tests: a pytest plugin whose fixtures give each test a Kubernetes API of its own (`plugin`).

Nothing of Shoal is loaded before a test asks for a cluster, and then in a process of its own (`server`, started by
`process`); `cluster` is what a test gets.
"""
