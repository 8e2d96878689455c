"""The API importer: turns the APIs a workload Cluster offers into APIResourceImports."""
