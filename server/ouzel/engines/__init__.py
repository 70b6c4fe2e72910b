"""Engine cores: one stage's work each, behind the protocol of `stages.core`."""
