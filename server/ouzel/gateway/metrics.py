"""What the server counts: requests, how soon and how steadily they sounded, and where the frame's budget went."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from importlib.metadata import version

from ouzel import __version__
from ouzel.gateway.language import LanguageModel
from ouzel.gateway.language_metrics import LanguageMetrics
from ouzel.gateway.prometheus import Counter, Gauge, Histogram, Labels, Metric, ReadCounter, render
from ouzel.gateway.timing import Timing
from ouzel.stats.phases import FRAME_NS

__all__ = ["CONTINUITY_MS", "Metrics"]

#: Gaps up to these stay unheard by one measure or another: C50, C100, C200.
CONTINUITY_MS = (50, 100, 200)
_FIRST_AUDIO = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5)
_RTF = (0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2, 5, 10)
_UNDERRUN = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)
_STEP = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.12, 0.2, 0.5)


class Metrics:
    """Everything on the `/metrics` page."""

    def __init__(self, language: LanguageModel | None = None) -> None:
        self.waiting = 0
        self.running = 0
        self.sockets = 0
        self.loaded: dict[Labels, float] = {}
        kind = ("kind",)
        self._requests = Counter("ouzel_requests_total", "Requests by how they ended.", ("kind", "outcome"))
        #: None where no language model is served
        self.language = None if language is None else LanguageMetrics(language, self._requests)
        self._first_audio = Histogram(
            "ouzel_tts_time_to_first_audio_seconds", "From the request to its first audio.", _FIRST_AUDIO
        )
        self._rtf = Histogram("ouzel_tts_real_time_factor", "Time from first to last audio over its length.", _RTF)
        self._underrun = Histogram(
            "ouzel_tts_underrun_seconds", "Silence that a listener heard in an utterance, all gaps together.", _UNDERRUN
        )
        self._continuity = Counter(
            "ouzel_tts_continuity_ok_total", "Utterances without a gap above the threshold.", ("threshold_ms",)
        )
        self._step = Histogram(
            "ouzel_step_seconds", "Time of a codec frame in a phase, mean of its chunk.", _STEP, ("phase",)
        )
        self._missed = Counter(
            "ouzel_frame_budget_missed_total", "Codec frames that took longer than they last (80 ms)."
        )
        self._frames = Counter("ouzel_frames_total", "Codec frames sent.")
        self._starved = Counter("ouzel_text_starved_frames_total", "Codec frames' time spent waiting for text.")
        self._gaps = Counter(
            "ouzel_tts_gap_seconds_total", "Silence that listeners heard, by what was late: text or voice.", ("cause",)
        )
        self._cancel = Histogram(
            "ouzel_cancel_latency_seconds", "From a cancel to the end of its utterance.", _FIRST_AUDIO
        )
        self._page: list[Metric] = [
            Gauge("ouzel_requests_waiting", "Requests before their first audio or text.", self._waiting, kind),
            Gauge("ouzel_requests_running", "Requests that sound or write.", self._running, kind),
            Gauge("ouzel_sockets", "Open speech connections.", lambda: {(): self.sockets}),
            self._requests, self._first_audio, self._rtf, self._underrun, self._continuity, self._step, self._missed,
            self._frames, self._starved, self._gaps, self._cancel,
            *(self.language.page if self.language else []),
            Gauge("ouzel_model_loaded", "Models that serve.", self._loaded, ("model",)),
            Gauge("ouzel_build_info", "What runs here.", _build, ("version", "torch")),
            *_process(),
        ]  # fmt: skip

    def page(self) -> str:
        return render(self._page)

    def _waiting(self) -> dict[Labels, float]:
        return _by_kind(self.waiting, self.language.waiting if self.language else None)

    def _running(self) -> dict[Labels, float]:
        return _by_kind(self.running, self.language.running if self.language else None)

    def _loaded(self) -> dict[Labels, float]:
        return self.loaded | (self.language.loaded() if self.language else {})

    def first_audio(self, seconds: float) -> None:
        self._first_audio.observe(seconds)

    def piece(self, timing: Timing) -> None:
        """A piece of audio was made."""
        self._frames.add(by=timing.frames)
        if not timing.frames:
            return
        for phase, ns in timing.work().items():
            self._step.observe(ns / timing.frames / 1e9, phase.value)
        if timing.used_ns > timing.budget_ns:
            self._missed.add(by=timing.frames)
        self._starved.add(by=timing.starved_ns / FRAME_NS)

    def gap(self, seconds: float, starved_s: float) -> None:
        """A piece came after a silence, and the voice had waited so long for its text."""
        starved_s = min(seconds, starved_s)
        for cause, part_s in (("text", starved_s), ("voice", seconds - starved_s)):
            if part_s:
                self._gaps.add(cause, by=part_s)

    def ended(self, outcome: str) -> None:
        self._requests.add("tts", outcome)

    def sounded(self, seconds: float, audio_s: float, gaps_s: Sequence[float]) -> None:
        """An utterance was heard to its end."""
        if audio_s:
            self._rtf.observe(seconds / audio_s)
        self._underrun.observe(sum(gaps_s))
        worst = max(gaps_s, default=0.0)
        for threshold in CONTINUITY_MS:
            if worst * 1000 <= threshold:
                self._continuity.add(str(threshold))

    def cancelled(self, seconds: float) -> None:
        self._cancel.observe(seconds)


def _by_kind(tts: int, llm: int | None) -> dict[Labels, float]:
    return {("tts",): tts} if llm is None else {("tts",): tts, ("llm",): llm}


def _build() -> dict[tuple[str, ...], float]:
    return {(__version__, version("torch")): 1}


def _process() -> list[Metric]:
    started = time.time()
    return [
        Gauge("process_start_time_seconds", "Start, seconds since 1970.", lambda: {(): started}),
        Gauge(
            "process_resident_memory_bytes", "Memory of this process, without its stages.", lambda: {(): _resident()}
        ),
        ReadCounter("process_cpu_seconds_total", "Processor time of this process.", lambda: {(): time.process_time()}),
        Gauge("process_open_fds", "Open descriptors.", lambda: {(): len(os.listdir("/proc/self/fd"))}),
    ]


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
