"""autoscaling/v1 and v2: HorizontalPodAutoscaler."""
