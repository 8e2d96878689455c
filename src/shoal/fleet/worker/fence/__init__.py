"""Write fencing: a worker stops writing to clusters that it may have lost, by its own clock."""
