"""ReplicaSet controller, also used for ReplicationControllers."""
