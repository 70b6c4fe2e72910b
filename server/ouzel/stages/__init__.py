"""What an engine core is, what travels between cores, and how a core is run in a process of its own."""
