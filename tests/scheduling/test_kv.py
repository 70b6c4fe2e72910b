from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import BusyError, ConfigError, RequestError
from ouzel.scheduling import SENTENCE_TOKENS, Admission, KvBudget, KvGeometry, kv_budget

PUBLISHED = KvGeometry(layers=28, kv_heads=8, head_dim=128, bytes_per_value=2)


def test_bytes_per_token_are_exact() -> None:
    assert PUBLISHED.bytes_per_token == 114_688
    assert PUBLISHED.tokens_in(114_688 * 10 - 1) == 9


def test_the_number_of_sequences_follows_from_the_budget() -> None:
    sentence = SENTENCE_TOKENS * 114_688
    assert kv_budget(PUBLISHED, 4, 3 * sentence) == KvBudget(3, 3 * SENTENCE_TOKENS)
    assert kv_budget(PUBLISHED, 4, 3 * sentence - 1) == KvBudget(2, 3 * SENTENCE_TOKENS - 1)
    assert kv_budget(PUBLISHED, 4, 9 * sentence).sequences == 4
    assert kv_budget(PUBLISHED, 4, None) == KvBudget(4, 4 * SENTENCE_TOKENS)
    with pytest.raises(ConfigError, match="holds no sequence of 1024 tokens, which takes 117440512"):
        kv_budget(PUBLISHED, 4, sentence - 1)


def test_a_request_starts_only_when_its_whole_reservation_fits() -> None:
    admission: Admission[str] = Admission(capacity=100, max_num_seqs=4, max_waiting=8)
    admission.submit("a", 60)
    admission.submit("b", 41)
    assert admission.admit() == ["a"]
    assert (admission.running, admission.waiting, admission.reserved) == (1, 1, 60)
    admission.release("a")
    assert admission.admit() == ["b"]


def test_nobody_overtakes_the_head_of_the_queue() -> None:
    admission: Admission[str] = Admission(capacity=100, max_num_seqs=4, max_waiting=8)
    for key, tokens in (("a", 60), ("large", 50), ("small", 10)):
        admission.submit(key, tokens)
    assert admission.admit() == ["a"]
    admission.release("a")
    assert admission.admit() == ["large", "small"]


def test_the_fifth_waits_and_the_bound_refuses() -> None:
    admission: Admission[int] = Admission(capacity=1000, max_num_seqs=4, max_waiting=1)
    for key in range(4):
        admission.submit(key, 10)
        assert admission.admit() == [key]
    admission.submit(4, 10)
    assert admission.admit() == []
    with pytest.raises(BusyError, match="4 requests are running and 1 waiting"):
        admission.submit(5, 10)
    admission.release(2)
    assert admission.admit() == [4]


def test_a_queue_of_none_still_takes_who_can_start() -> None:
    admission: Admission[int] = Admission(capacity=100, max_num_seqs=1, max_waiting=0)
    admission.submit(0, 10)
    with pytest.raises(BusyError):
        admission.submit(1, 10)
    assert admission.admit() == [0]


def test_what_can_never_fit_is_the_requests_fault() -> None:
    admission: Admission[int] = Admission(capacity=100, max_num_seqs=1, max_waiting=8)
    with pytest.raises(RequestError, match="needs 101 tokens of KV cache and the whole cache has 100"):
        admission.submit(0, 101)


def test_release_while_waiting_and_twice() -> None:
    admission: Admission[str] = Admission(capacity=100, max_num_seqs=1, max_waiting=8)
    for key in "abc":
        admission.submit(key, 10)
    admission.admit()
    admission.release("b")
    admission.release("b")
    admission.release("unknown")
    admission.release("a")
    assert admission.admit() == ["c"]


@given(
    moves=st.lists(
        st.one_of(st.tuples(st.just("submit"), st.integers(1, 60)), st.tuples(st.just("end"), st.integers(0, 9)))
    )
)
def test_reservations_never_exceed_the_cache_and_order_is_kept(moves: list[tuple[str, int]]) -> None:
    admission: Admission[int] = Admission(capacity=100, max_num_seqs=3, max_waiting=4)
    queued: deque[int] = deque()
    running: dict[int, int] = {}
    tokens_of: list[int] = []
    for move, value in moves:
        if move == "submit":
            try:
                admission.submit(len(tokens_of), value)
            except BusyError:
                assert len(queued) >= 4
                continue
            queued.append(len(tokens_of))
            tokens_of.append(value)
        elif running:
            key = sorted(running)[value % len(running)]
            del running[key]
            admission.release(key)
        for key in admission.admit():
            assert key == queued.popleft()
            running[key] = tokens_of[key]
        assert sum(running.values()) == admission.reserved <= 100
        assert len(running) == admission.running <= 3
        # Work-conserving: the head waits only because it doesn't fit.
        assert not queued or len(running) == 3 or sum(running.values()) + tokens_of[queued[0]] > 100
