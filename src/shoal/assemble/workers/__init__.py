"""Workers of a hub: join tokens, joining a hub, and the worker processes that a hub runs."""
