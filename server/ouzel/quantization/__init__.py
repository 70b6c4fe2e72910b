"""Weights in four bits: grids, how they are packed, and the layers that read them. Needs torch and nothing else."""
