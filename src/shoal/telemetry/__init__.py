"""What a process tells of itself: meters, logs, spans. It sends nothing: who serves or exports is in `assemble`."""
