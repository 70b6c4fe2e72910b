"""What was said in a session so far, as far as a language model still has room for it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ouzel.gateway.language import LanguageModel
from ouzel.stages.language import LanguageRequest, LanguageSampling

__all__ = ["Conversation", "ReplyWish"]

_MOST_TURNS = 32
_CONTEXT = 4096  # tokens, where the model doesn't say
#: Of an answer, where the client doesn't say: about what may be spoken of one, so none is written on and on unheard.
_SPOKEN_TOKENS = 1024
#: Few texts have fewer letters in a token, so what is kept surely fits.
_LETTERS_PER_TOKEN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyWish:
    """How a text is to be answered; None leaves it to the model."""

    system: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


class Conversation:
    """Questions and their answers, the oldest forgotten first."""

    def __init__(self) -> None:
        self._turns: deque[tuple[str, str]] = deque(maxlen=_MOST_TURNS)

    def request(self, question: str, wish: ReplyWish, language: LanguageModel) -> LanguageRequest:
        """The next question, after as much of what came before as leaves the answer its room."""
        facts = language.status().facts
        context = (facts and facts.context) or _CONTEXT
        most = wish.max_tokens or min(_SPOKEN_TOKENS, context // 4)
        answer = min(most, context // 2)
        left = _LETTERS_PER_TOKEN * (context - answer) - len(question) - len(wish.system or "")
        kept: list[dict[str, str]] = []
        for asked, answered in reversed(self._turns):
            left -= len(asked) + len(answered)
            if left < 0:
                break
            kept[:0] = [_message("user", asked), _message("assistant", answered)]
        system = [_message("system", wish.system)] if wish.system else []
        return LanguageRequest(
            messages=(*system, *kept, _message("user", question)),
            sampling=LanguageSampling(temperature=wish.temperature, max_tokens=most, seed=wish.seed),
        )

    def keep(self, question: str, answer: str) -> None:
        """Remember a turn, as far as it came; one without an answer never was."""
        if answer.strip():
            self._turns.append((question, answer))


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
