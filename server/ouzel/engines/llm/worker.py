"""vLLM's worker, with seeds that hold when a prompt is read in pieces.

vLLM samples after each piece of a prompt, throws the token away, and sets the request's generator back by an offset; a
generator on the CPU has none, and the whole engine dies. So ours remember where a step began.
"""

from __future__ import annotations

import torch
from vllm.v1.core.sched.output import GrammarOutput
from vllm.v1.outputs import AsyncModelRunnerOutput, ModelRunnerOutput
from vllm.v1.worker.cpu_worker import CPUWorker

__all__ = ["RewindingGenerator", "SeededWorker"]


class RewindingGenerator(torch.Generator):
    """Knows one way back: to its mark."""

    @classmethod
    def of(cls, generator: torch.Generator) -> RewindingGenerator:
        """One that goes on where another is; itself, if it is one already."""
        if isinstance(generator, cls):
            return generator
        made = cls(device="cpu")
        made.set_state(generator.get_state())
        return made

    def mark(self) -> None:
        self._mark = self.get_state()

    def get_offset(self) -> int:
        return 0

    def set_offset(self, offset: int) -> torch.Generator:
        """vLLM asks for this to take back what was drawn since the step began, by whatever number."""
        self.set_state(self._mark)
        return self


class SeededWorker(CPUWorker):
    """Loaded by vLLM (`worker_cls`)."""

    def sample_tokens(self, grammar_output: GrammarOutput | None) -> ModelRunnerOutput | AsyncModelRunnerOutput | None:
        batch, requests = self.model_runner.input_batch, self.model_runner.requests
        for place, generator in batch.generators.items():
            ours = RewindingGenerator.of(generator)
            ours.mark()
            batch.generators[place] = requests[batch.req_ids[place]].generator = ours
        return super().sample_tokens(grammar_output)
