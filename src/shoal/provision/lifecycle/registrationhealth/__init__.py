"""NodeRegistrationHealthy condition of NodePools."""
