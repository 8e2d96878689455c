"""A small part of sh that starts nothing, for simulated containers. Pure; what it cannot tell is `Unknown`."""
