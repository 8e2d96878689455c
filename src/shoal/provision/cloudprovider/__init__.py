"""The cloud provider interface and its decorators: metrics and NodeOverlays."""
