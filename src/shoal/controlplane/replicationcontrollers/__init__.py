"""ReplicationController controller."""
