"""How loops run: work queue, reconcile, controller."""
