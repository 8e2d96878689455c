"""ManagedClusters on Workers: scheduled, watched over and told of at the hub; hosted and reported on by workers."""
