"""Storage of objects. `interface` is the contract; every other module is a store or a decorator that implements it."""
