"""Requests between clients and stages: sentences, credits, text, and exactly one end each. No torch here."""

from __future__ import annotations

from ouzel.orchestrator.generation import Generation
from ouzel.orchestrator.health import Health
from ouzel.orchestrator.language import Language, LanguageState, LanguageStatus
from ouzel.orchestrator.omni import AsyncOmni
from ouzel.orchestrator.speech import AudioChunk, Speech
from ouzel.orchestrator.sync import Omni, SyncGeneration, SyncSpeech
from ouzel.orchestrator.voice import VoiceFacts

__all__ = [
    "AsyncOmni",
    "AudioChunk",
    "Generation",
    "Health",
    "Language",
    "LanguageState",
    "LanguageStatus",
    "Omni",
    "Speech",
    "SyncGeneration",
    "SyncSpeech",
    "VoiceFacts",
]
