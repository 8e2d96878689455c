"""What the commands of `shoal.cli` do. Each module is one command, or a part that commands share."""
