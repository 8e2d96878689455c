"""Clusters for tests: a pytest plugin whose fixtures give each test its own Kubernetes API (`plugin`).

Nothing of Shoal is imported before a test requests a cluster, and then in a separate process (`server`, started by
`process`). `cluster` is what a test gets.
"""
