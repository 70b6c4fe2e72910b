"""Requests between clients and stages: sentences, credits, and exactly one end each. No torch here."""

from __future__ import annotations

from ouzel.orchestrator.health import Health
from ouzel.orchestrator.omni import AsyncOmni
from ouzel.orchestrator.speech import AudioChunk, Speech
from ouzel.orchestrator.sync import Omni, SyncSpeech
from ouzel.orchestrator.voice import VoiceFacts

__all__ = ["AsyncOmni", "AudioChunk", "Health", "Omni", "Speech", "SyncSpeech", "VoiceFacts"]
