"""Samples to bytes: PCM, WAV and other formats. No torch."""
