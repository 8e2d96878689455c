"""Where objects live: `interface` is the contract, every other module here is one store that keeps it."""
