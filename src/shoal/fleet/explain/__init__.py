"""Why a ManagedCluster is where it is, or waits."""
