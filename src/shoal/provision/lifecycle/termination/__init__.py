"""Node termination: cordon, drain, volume detachment, instance termination."""
