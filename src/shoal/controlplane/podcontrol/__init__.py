"""What every controller of pods does with them: make many, choose which go, take over and let go."""
