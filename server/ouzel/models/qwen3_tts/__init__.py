"""Qwen3-TTS (12 Hz): talker, code predictor, codec, prompts, sampling and loading of published checkpoints."""
