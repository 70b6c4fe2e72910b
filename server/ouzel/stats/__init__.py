"""Where the milliseconds of a frame go, and those of a start. Imports nothing else of ours."""
