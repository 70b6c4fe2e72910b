"""Deploy profiles: a strict schema, layers from defaults to flags, and the source of every value."""

from __future__ import annotations

from ouzel.config.files import deploy_root
from ouzel.config.load import DEFAULT_PROFILE, LLM_KEY_VARIABLE, Effective, load_config
from ouzel.config.probe import DeviceProbe, probe_device
from ouzel.config.provenance import render_config, to_yaml
from ouzel.config.schema import (
    Code2WavConfig,
    DeployConfig,
    GatewayConfig,
    LimitsConfig,
    LlmConfig,
    OrchestratorConfig,
    TalkerConfig,
)

__all__ = [
    "DEFAULT_PROFILE",
    "LLM_KEY_VARIABLE",
    "Code2WavConfig",
    "DeployConfig",
    "DeviceProbe",
    "Effective",
    "GatewayConfig",
    "LimitsConfig",
    "LlmConfig",
    "OrchestratorConfig",
    "TalkerConfig",
    "deploy_root",
    "load_config",
    "probe_device",
    "render_config",
    "to_yaml",
]
