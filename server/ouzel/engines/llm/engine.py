"""vLLM's engine in this process, in the parts of a step: schedule, run, update, detokenize."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from vllm.outputs import RequestOutput
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest
from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.outputs import ModelRunnerOutput

__all__ = ["Engine"]


class Engine:
    """The engine core and the text that its tokens are; what `EngineCore.step` does, cut where time is counted."""

    def __init__(self, core: EngineCore, outputs: OutputProcessor) -> None:
        self._core = core
        self._outputs = outputs
        #: how often a request lost its KV
        self.preemptions = 0

    @property
    def has_requests(self) -> bool:
        """Whether a step would do anything; requests that have ended are one step more."""
        return bool(self._core.scheduler.has_requests())

    @property
    def model(self) -> nn.Module:
        """The layers themselves."""
        return self._core.model_executor.driver_worker.get_model()

    def add(self, work: EngineCoreRequest) -> None:
        self._outputs.add_request(work, None)
        request, wave = self._core.preprocess_add_request(work)
        self._core.add_request(request, wave)

    def abort(self, names: Sequence[str]) -> None:
        """Forget requests by the names that their answers have."""
        self._core.abort_requests(self._outputs.abort_requests(names, internal=False))

    def schedule(self) -> SchedulerOutput:
        plan = self._core.scheduler.schedule()
        self.preemptions += len(plan.preempted_req_ids or ())
        return plan

    def run(self, plan: SchedulerOutput) -> ModelRunnerOutput:
        executor = self._core.model_executor
        future = executor.execute_model(plan, non_block=True)
        grammar = self._core.scheduler.get_grammar_bitmask(plan)
        return future.result() or executor.sample_tokens(grammar)

    def update(self, plan: SchedulerOutput, made: ModelRunnerOutput) -> list[EngineCoreOutput]:
        told = self._core.scheduler.update_from_output(plan, made)
        return [output for client in told.values() for output in client.outputs]

    def detokenize(self, outputs: list[EngineCoreOutput]) -> list[RequestOutput]:
        """Text up to a stop string, which ends its request."""
        processed = self._outputs.process_outputs(outputs)
        if processed.reqs_to_abort:
            self._core.abort_requests(processed.reqs_to_abort)
        return processed.request_outputs
