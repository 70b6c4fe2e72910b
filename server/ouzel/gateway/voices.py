"""Voice names: the model's own, and OpenAI's thirteen as aliases, since some clients send no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ouzel.errors import RequestError

__all__ = ["OPENAI_VOICES", "Voices"]

OPENAI_VOICES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse",
)  # fmt: skip
_NAMELESS = "default"


@dataclass(frozen=True, slots=True)
class Voices:
    """The voices of a model, the default one first."""

    names: Sequence[str]

    def find(self, name: str | None, *, param: str = "voice") -> str | None:
        """The model's speaker for a requested name; None for a model without names.

        :raises RequestError: when there is no such voice; the message lists those that there are
        """
        if name is None:
            return self.names[0] if self.names else None
        folded = {own.casefold(): own for own in self.names}
        if found := folded.get(name.casefold()):
            return found
        if name in OPENAI_VOICES:
            # Spread over what the model has, so that different names may sound different, and always the same.
            return self.names[OPENAI_VOICES.index(name) % len(self.names)] if self.names else None
        if name == _NAMELESS and not self.names:
            return None
        valid = ", ".join([*(self.names or [_NAMELESS]), *OPENAI_VOICES])
        raise RequestError(f"{param}: {name!r} is no voice here; valid are {valid}", param=param)

    def listing(self) -> dict[str, object]:
        """The voices in every shape that clients look for them in."""
        names = [*(self.names or [_NAMELESS]), *(alias for alias in OPENAI_VOICES if alias not in self.names)]
        voices = [{"id": name, "name": name} for name in names]
        return {"object": "list", "voices": voices, "data": voices}
