"""A random model on vLLM: what it says means nothing, how it is said must be right."""

from __future__ import annotations

import math

import pytest
from running_stage import RunningStage, put_together, refusal

from ouzel.errors import BusyError, RequestError
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, LanguageSampling

pytestmark = pytest.mark.llm

USER = ({"role": "user", "content": "Hi"},)


def greedy(tokens: int, **more: object) -> LanguageSampling:
    return LanguageSampling(temperature=0, max_tokens=tokens, **more)  # type: ignore[arg-type]


def test_it_starts_where_packages_that_text_does_not_need_are_broken(plain: RunningStage) -> None:
    assert (plain.facts.model, plain.facts.context, plain.facts.tools, plain.facts.reasoning) == (
        "plain",
        512,
        False,
        False,
    )
    named = [span.name for span in plain.spans]
    assert (
        named.index("import vllm") < named.index("load weights") < named.index("compile") < named.index("first words")
    )


def test_the_cache_is_as_large_as_was_asked_for(plain: RunningStage) -> None:
    assert plain.facts.kv_tokens == 32 * 128


def test_text_arrives_token_by_token_with_its_usage(plain: RunningStage) -> None:
    (answer,), usage = plain.ask_all("hello", sampling=greedy(16, ignore_eos=True))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (5, 16, 0)
    assert answer.finish is FinishReason.LENGTH and len(answer.pieces) >= 14


def test_a_prompt_that_was_read_before_is_cached(plain: RunningStage) -> None:
    words = "the river keeps its own time " * 6
    first, again = (plain.ask_all(words, sampling=greedy(1))[1] for _ in range(2))
    assert (first.prompt_tokens, again.prompt_tokens) == (174, 174)
    assert (first.cached_tokens, again.cached_tokens) == (0, 128)


def test_token_ids_are_a_prompt_too(plain: RunningStage) -> None:
    letters = plain.ask("AB", sampling=greedy(8))
    assert plain.ask(prompt_ids=(36, 37), sampling=greedy(8)) == letters


def test_without_a_limit_an_answer_may_fill_the_context(plain: RunningStage) -> None:
    sampling = LanguageSampling(temperature=0, ignore_eos=True)
    (answer,), usage = plain.ask_all("x" * 500, sampling=sampling)
    assert (usage.completion_tokens, answer.finish) == (12, FinishReason.LENGTH)


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_stop_string_cuts_exactly_and_nothing_of_it_leaves(plain: RunningStage, length: int) -> None:
    whole = plain.ask("alphabet", sampling=greedy(48, ignore_eos=True)).content
    stop = whole[10 : 10 + length]
    cut = plain.ask("alphabet", sampling=greedy(48, ignore_eos=True, stop=("never", stop)))
    assert cut.content == whole[: whole.index(stop)]
    assert cut.finish is FinishReason.STOP


def test_a_seed_gives_the_same_text_again_though_the_prompt_is_read_in_pieces(plain: RunningStage) -> None:
    words = "a prompt of more than one piece, of which each would draw a token " * 3

    def text(seed: int | None) -> str:
        return plain.ask(words, sampling=LanguageSampling(temperature=1, seed=seed, max_tokens=24)).content

    assert text(7) == text(7)
    assert len({text(7), text(8), text(None), text(None)}) == 4


def test_choices_come_from_one_prompt_and_end_once_each(plain: RunningStage) -> None:
    sampling = LanguageSampling(temperature=1, seed=3, max_tokens=12, ignore_eos=True)
    answers, usage = plain.ask_all("hello", n=6, sampling=sampling)
    assert len({answer.content for answer in answers}) == 6
    assert all(answer.finish is FinishReason.LENGTH for answer in answers)
    assert (usage.prompt_tokens, usage.completion_tokens) == (5, 72)
    assert answers[2] == plain.ask_all("hello", n=3, sampling=sampling)[0][2]


def test_greedy_choices_are_allowed(plain: RunningStage) -> None:
    answers, _ = plain.ask_all("hello", n=2, sampling=greedy(4))
    assert answers[0].content == answers[1].content


def test_logprobs_are_finite_even_where_sampling_cuts_tokens_off(plain: RunningStage) -> None:
    sampling = LanguageSampling(temperature=1, top_p=0.3, top_k=2, logprobs=5, max_tokens=8, seed=1, ignore_eos=True)
    answer = plain.ask("hello", sampling=sampling)
    assert len(answer.logprobs) == 8
    for one in answer.logprobs:
        assert len(one.top) == 5
        assert [top.logprob for top in one.top] == sorted((top.logprob for top in one.top), reverse=True)
        assert all(math.isfinite(top.logprob) and top.logprob >= -9999 for top in (one, *one.top))
        assert one.bytes == tuple(one.token.encode())
    assert not plain.ask("hello", sampling=greedy(4, logprobs=0)).logprobs[0].top
    assert plain.ask("hello", sampling=greedy(4)).logprobs == ()


def test_an_abort_ends_a_request_at_its_next_step(plain: RunningStage) -> None:
    epoch = plain.send(LanguageRequest(prompt="hello", sampling=greedy(480, ignore_eos=True)))
    plain.first_delta(epoch)
    plain.abort(epoch)
    rest = plain.deltas(epoch)[epoch]
    assert rest[-1].finish is FinishReason.CANCELLED
    assert rest[-1].usage is not None and rest[-1].usage.completion_tokens < 480
    assert plain.counters()["running"] == 0


def test_requests_are_written_side_by_side_and_never_preempted(plain: RunningStage) -> None:
    sampling = greedy(400, ignore_eos=True)
    epochs = [plain.send(LanguageRequest(prompt="x" * 100, sampling=sampling), slot) for slot in range(10)]
    found = plain.deltas(*epochs)
    assert all(put_together(deltas).finish is FinishReason.LENGTH for deltas in found.values())
    counters = plain.counters()
    assert (counters["preemptions"], counters["kv_reserved_tokens"], counters["waiting"]) == (0, 0, 0)
    assert counters["kv_tokens"] == 4096


def test_the_queue_is_bounded_for_requests_not_for_their_choices(plain: RunningStage) -> None:
    sampling = greedy(300, ignore_eos=True)
    epochs = [plain.send(LanguageRequest(prompt="x", n=40, sampling=sampling), 0)]
    epochs += [plain.send(LanguageRequest(prompt="x", sampling=sampling), slot) for slot in range(1, 18)]
    with pytest.raises(BusyError, match="16 requests wait, which is the bound"):
        plain.deltas(epochs[-1])
    for slot, epoch in enumerate(epochs):
        plain.abort(epoch, slot)
    ended = plain.deltas(*epochs[:-1])
    assert {deltas[-1].finish for deltas in ended.values()} == {FinishReason.CANCELLED}


def test_the_template_lays_a_conversation_out_and_its_complaint_is_the_clients(plain: RunningStage) -> None:
    _, usage = plain.ask_all(messages=USER)
    assert usage.prompt_tokens == len("user\nHi\nassistant\n") + 3
    refused = refusal(plain, messages=({"role": "assistant", "content": "Hi"},))
    assert (type(refused), str(refused), refused.param) == (RequestError, "the user speaks first", "messages")


def test_text_in_parts_is_text_and_pictures_are_refused_unfetched(plain: RunningStage) -> None:
    parts = [{"type": "text", "text": "Hi"}]
    assert plain.ask_all(messages=({"role": "user", "content": parts},))[1] == plain.ask_all(messages=USER)[1]
    picture = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}
    refused = refusal(plain, messages=({"role": "user", "content": [picture]},))
    assert str(refused) == "messages[0].content has a part of type 'image_url'; expected text"


@pytest.mark.parametrize(
    ("request_", "words", "param"),
    [
        ({"words": "x" * 600}, "the prompt has 600 tokens and the context 512", "prompt"),
        ({"messages": ({"role": "user", "content": "x" * 600},)}, "maximum context length is 512", "messages"),
        ({"messages": USER, "template": {"chat_template": "Hi"}}, "kwargs.chat_template", "chat_template_kwargs"),
        ({"messages": USER, "template": {"conversation": []}}, "kwargs.conversation", "chat_template_kwargs"),
        ({"words": "x", "sampling": LanguageSampling(max_tokens=600)}, "ask for at most 511", "max_tokens"),
        ({"words": ""}, "the prompt is empty", "prompt"),
        ({"prompt_ids": (99999,)}, "out of vocabulary", None),
        ({"words": "x", "n": 0}, "n is 0; expected 1 to 128", "n"),
        ({"words": "x", "sampling": LanguageSampling(temperature=5)}, "temperature must be in", "temperature"),
        ({"words": "x", "sampling": LanguageSampling(logprobs=21)}, "expected 0 to 20", "top_logprobs"),
        ({"messages": ()}, "empty conversation", "messages"),
        ({"messages": ({"content": "x"},)}, "Field required", "messages"),
        (
            {"messages": USER, "tools": ({"type": "function", "function": {"name": "f"}},)},
            "plain can't call tools: its chat template doesn't tell of them",
            "tools",
        ),
        ({"words": "x", "response_format": {"type": "yaml"}}, "response_format.type is 'yaml'", "response_format"),
        (
            {"words": "x", "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "no"}}}},
            'Unsupported type "no"',
            "response_format",
        ),
        (
            {
                "words": "x",
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"schema": {"type": "integer", "multipleOf": 3}},
                },
            },
            "multipleOf",
            "response_format",
        ),
    ],
)
def test_what_can_not_be_served_is_refused_with_its_reason(
    plain: RunningStage, request_: dict[str, object], words: str, param: str | None
) -> None:
    given = {"sampling": LanguageSampling(), **request_}
    refused = refusal(plain, given.pop("words", None), **given)  # type: ignore[arg-type]
    assert isinstance(refused, RequestError)
    assert words in str(refused) and refused.param == param
