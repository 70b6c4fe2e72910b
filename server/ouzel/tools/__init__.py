"""What the commands do offline, on files."""
