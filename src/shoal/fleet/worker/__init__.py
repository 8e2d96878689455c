"""The worker: joins a hub, hosts the ManagedClusters assigned to it, reports on them, and takes part in migrations."""
