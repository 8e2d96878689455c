"""apps/v1: Deployment, ReplicaSet, StatefulSet, DaemonSet and ControllerRevision."""
