"""How a model judges given tokens, and what it says by itself, on the engine that serves it. For measuring."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from vllm.inputs.engine import tokens_input
from vllm.outputs import RequestOutput
from vllm.sampling_params import SamplingParams

from ouzel.engines.llm.core import LanguageCore
from ouzel.errors import EngineError

__all__ = ["Scorer"]


class Scorer:
    """Takes the engine of a core that has no work."""

    def __init__(self, core: LanguageCore) -> None:
        self._core = core
        self._names = count()

    def logprobs(self, ids: Sequence[int]) -> list[float]:
        """Natural logarithm of the probability of each token but the first, after those before it."""
        told = self._run(ids, SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0, detokenize=False))
        if told.prompt_logprobs is None:
            raise EngineError("vLLM gave no logprobs of the prompt")
        pairs = zip(ids[1:], told.prompt_logprobs[1:], strict=True)
        return [ranked[token].logprob for token, ranked in pairs]

    def greedy(self, ids: Sequence[int], tokens: int, stops: Sequence[int] = ()) -> list[int]:
        """The likeliest token after each other, up to `tokens` or one of `stops`, which is told too."""
        sampling = SamplingParams(
            temperature=0, max_tokens=tokens, ignore_eos=True, stop_token_ids=list(stops), detokenize=False
        )
        return list(self._run(ids, sampling).outputs[0].token_ids)

    def _run(self, ids: Sequence[int], sampling: SamplingParams) -> RequestOutput:
        engine, inputs = self._core.engine, self._core.inputs
        work = inputs.process_inputs(f"score/{next(self._names)}", tokens_input(list(ids)), sampling, ("generate",))
        inputs.assign_request_id(work)
        engine.add(work)
        ended: RequestOutput | None = None
        told = None
        while engine.has_requests:
            plan = engine.schedule()
            for output in engine.detokenize(engine.update(plan, engine.run(plan))):
                told = output.prompt_logprobs or told
                ended = output if output.finished else ended
        if ended is None:
            raise EngineError("vLLM ended a request without an answer")
        ended.prompt_logprobs = told
        return ended
