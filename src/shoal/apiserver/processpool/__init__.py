"""Child processes for requests that would hold the event loop for too long. `apiserver.write.heavy` decides which."""
