"""PersistentVolume and claim controllers, protection finalizers and the simulated provisioner."""
