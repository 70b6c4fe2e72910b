"""A tokenizer and a chat template for checkpoints of random weights: Spark's own aren't free to carry.

Text becomes one token a byte. Ids above are words of made-up syllables, so that whatever a random model says is text.
Thoughts and tool calls are marked as GLM-4.5 marks them, which is Spark's form too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice, product
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from ouzel.errors import RequestError

__all__ = ["END_IDS", "write_tokenizer"]

#: left out of the text that clients see
CONTROLS = ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
#: part of the text, for the parsers to find
MARKS = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<tool_response>", "</tool_response>"),
)
#: an answer ends where the text does, or where another would speak
END_IDS = tuple(CONTROLS.index(token) for token in ("<|endoftext|>", "<|user|>", "<|observation|>"))

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"

TEMPLATE = """\
[gMASK]<sop>
{%- if tools %}<|system|>
You may call these functions, described as JSON:
{% for tool in tools %}{{ (tool.function or tool) | tojson }}
{% endfor %}A call is written <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>.
{%- endif %}
{%- for message in messages %}
{%- if message.role not in ("system", "user", "assistant", "tool") %}
{{- raise_exception("no role " ~ message.role ~ ": system, user, assistant and tool are known") }}
{%- endif %}
{%- if message.role == "tool" %}<|observation|>
<tool_response>{{ message.content }}</tool_response>
{%- else %}<|{{ message.role }}|>
{% if message.content is string %}{{ message.content }}
{%- else %}{% for part in message.content or [] %}{{ part.text }}{% endfor %}
{%- endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>{{ call.function.name }}
{%- for key, value in call.function.arguments.items() %}
<arg_key>{{ key }}</arg_key><arg_value>{{ value if value is string else value | tojson }}</arg_value>
{%- endfor %}</tool_call>
{%- endfor %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>
{{ "<think></think>" if enable_thinking is defined and not enable_thinking }}
{%- endif %}
"""


def write_tokenizer(folder: Path, size: int) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja, for a vocabulary of `size` tokens.

    :raises RequestError: when `size` has no room for the marks and every byte
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = [*CONTROLS, *MARKS, *alphabet]
    if size < len(known):
        raise RequestError(f"a vocabulary of {size} has no room for {len(known)} marks and bytes", param="vocabulary")
    tokens = [*known, *islice(_words(), size - len(known))]
    tokenizer = Tokenizer(models.BPE(vocab={token: id_ for id_, token in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROLS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": CONTROLS[0],
        "pad_token": CONTROLS[0],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1 << 20,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def _words() -> Iterator[str]:
    """Words of one syllable, of two, of three, … with the blank before them, as byte-level tokenizers write it."""
    syllables = [consonant + vowel for consonant, vowel in product(CONSONANTS, VOWELS)]
    for length in count(1):
        yield from ("Ġ" + "".join(word) for word in product(syllables, repeat=length))
