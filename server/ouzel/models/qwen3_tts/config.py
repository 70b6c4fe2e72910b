"""The published configuration of a Qwen3-TTS checkpoint, read strictly: every size and id comes from its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ouzel.models.qwen3_tts.codec_config import CodecConfig, SpeakerEncoderConfig, read_codec, read_speaker_encoder
from ouzel.models.qwen3_tts.published_json import Section, read_json

__all__ = [
    "BackboneConfig",
    "CodecIds",
    "GenerationConfig",
    "PredictorConfig",
    "Qwen3TTSConfig",
    "TalkerConfig",
    "TextIds",
    "VoiceExtras",
    "config_from_dict",
    "load_config",
    "load_generation_config",
]

# The official package suppresses this many ids at the end of the codec vocabulary, the end of speech excepted.
SPECIAL_CODEC_IDS = 1024
MODEL_TYPES = ("base", "custom_voice", "voice_design")
CODEC_FOLDER = "speech_tokenizer"


@dataclass(frozen=True, slots=True)
class BackboneConfig:
    """Geometry of one transformer: talker or code predictor."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class PredictorConfig(BackboneConfig):
    """The code predictor (sub-talker); `input_size` is the width of the talker that feeds it."""

    vocab_size: int
    num_code_groups: int
    input_size: int


@dataclass(frozen=True, slots=True)
class CodecIds:
    """Ids of the codec vocabulary that aren't codes."""

    pad: int
    bos: int
    eos: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int


@dataclass(frozen=True, slots=True)
class TextIds:
    """Ids of the text vocabulary that the prompt adds by itself."""

    im_start: int
    im_end: int
    tts_pad: int
    tts_bos: int
    tts_eos: int


@dataclass(frozen=True, slots=True)
class TalkerConfig(BackboneConfig):
    """The talker's backbone, its two vocabularies and its code predictor."""

    vocab_size: int
    text_vocab_size: int
    text_hidden_size: int
    num_code_groups: int
    ids: CodecIds
    predictor: PredictorConfig

    @property
    def first_special_id(self) -> int:
        """From here to `vocab_size` no id is a code; all but `ids.eos` are suppressed."""
        return self.vocab_size - SPECIAL_CODEC_IDS


@dataclass(frozen=True, slots=True)
class VoiceExtras:
    """The block `ouzel` that our own voices carry in config.json; published checkpoints have none."""

    text: str
    letters_per_second: float
    default_speaker: str


@dataclass(frozen=True, slots=True)
class Qwen3TTSConfig:
    """A whole checkpoint; `codec` is None without a speech_tokenizer folder, `speaker_encoder` without cloning."""

    talker: TalkerConfig
    codec: CodecConfig | None
    speaker_encoder: SpeakerEncoderConfig | None
    text_ids: TextIds
    model_type: str
    model_size: str
    languages: dict[str, int]
    speakers: dict[str, int]
    dialects: dict[str, str]
    extras: VoiceExtras | None

    @property
    def spoken_languages(self) -> list[str]:
        """Languages that a request may name; a dialect comes with its speaker."""
        return sorted(name for name in self.languages if "dialect" not in name)

    @property
    def takes_instruct(self) -> bool:
        """Whether style instructions were trained: the small CustomVoice and Base were not."""
        return self.model_type == "voice_design" or (self.model_type == "custom_voice" and self.model_size != "0b6")


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Sampling defaults of generation_config.json; `sub_` is the code predictor."""

    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    sub_do_sample: bool
    sub_temperature: float
    sub_top_k: int
    sub_top_p: float
    max_new_tokens: int


def load_config(folder: Path) -> Qwen3TTSConfig:
    """Read config.json and, where it exists, speech_tokenizer/config.json.

    Raises `CheckpointError` when a file is missing or torn, or a key is missing, of the wrong kind or unsupported.
    """
    codec_file = folder / CODEC_FOLDER / "config.json"
    codec = read_json(codec_file) if codec_file.parent.is_dir() else None
    return _read_config(read_json(folder / "config.json"), codec)


def config_from_dict(
    top: Mapping[str, Any], codec: Mapping[str, Any] | None = None, *, source: str = "config.json"
) -> Qwen3TTSConfig:
    """The same from objects in memory, for a checkpoint that is only being made."""
    return _read_config(Section(top, source), None if codec is None else Section(codec, f"{CODEC_FOLDER}/{source}"))


def load_generation_config(folder: Path) -> GenerationConfig:
    """Read generation_config.json; raises `CheckpointError` as `load_config` does."""
    top = read_json(folder / "generation_config.json")
    return GenerationConfig(
        do_sample=top.flag("do_sample"),
        temperature=top.number("temperature"),
        top_k=top.integer("top_k"),
        top_p=top.number("top_p"),
        repetition_penalty=top.number("repetition_penalty"),
        sub_do_sample=top.flag("subtalker_dosample"),
        sub_temperature=top.number("subtalker_temperature"),
        sub_top_k=top.integer("subtalker_top_k"),
        sub_top_p=top.number("subtalker_top_p"),
        max_new_tokens=top.integer("max_new_tokens"),
    )


def _read_config(top: Section, codec: Section | None) -> Qwen3TTSConfig:
    _require(top, "tokenizer_type", "qwen3_tts_tokenizer_12hz")
    section = top.section("talker_config")
    model_type = _read_model_type(top)
    talker = _read_talker(section)
    speakers = _read_ids(section.section("spk_id"), talker.vocab_size)
    languages = _read_ids(section.section("codec_language_id"), talker.vocab_size)
    return Qwen3TTSConfig(
        talker=talker,
        codec=None if codec is None else read_codec(codec),
        speaker_encoder=read_speaker_encoder(top.section("speaker_encoder_config")) if model_type == "base" else None,
        text_ids=TextIds(
            im_start=top.index("im_start_token_id", talker.text_vocab_size),
            im_end=top.index("im_end_token_id", talker.text_vocab_size),
            tts_pad=top.index("tts_pad_token_id", talker.text_vocab_size),
            tts_bos=top.index("tts_bos_token_id", talker.text_vocab_size),
            tts_eos=top.index("tts_eos_token_id", talker.text_vocab_size),
        ),
        model_type=model_type,
        model_size=top.text("tts_model_size"),
        languages=languages,
        speakers=speakers,
        dialects=_read_dialects(section, languages),
        extras=_read_extras(top.section("ouzel"), speakers) if "ouzel" in top else None,
    )


def _read_model_type(top: Section) -> str:
    found = top.text("tts_model_type")
    if found not in MODEL_TYPES:
        raise top.error("tts_model_type", f"is {found!r}, expected one of {', '.join(MODEL_TYPES)}")
    return found


def _read_talker(talker: Section) -> TalkerConfig:
    _refuse_unsupported(talker)
    size = talker.integer("vocab_size")
    ids = CodecIds(
        pad=talker.index("codec_pad_id", size),
        bos=talker.index("codec_bos_id", size),
        eos=talker.index("codec_eos_token_id", size),
        think=talker.index("codec_think_id", size),
        nothink=talker.index("codec_nothink_id", size),
        think_bos=talker.index("codec_think_bos_id", size),
        think_eos=talker.index("codec_think_eos_id", size),
    )
    if ids.eos < size - SPECIAL_CODEC_IDS:
        raise talker.error("codec_eos_token_id", f"is {ids.eos}, expected {size - SPECIAL_CODEC_IDS} to {size - 1}")
    groups = talker.integer("num_code_groups")
    predictor = talker.section("code_predictor_config")
    if predictor.integer("num_code_groups") != groups:
        raise predictor.error("num_code_groups", f"is {predictor.integer('num_code_groups')}, the talker's is {groups}")
    return TalkerConfig(
        **talker.fields(TalkerConfig),
        ids=ids,
        predictor=_read_predictor(predictor, input_size=talker.integer("hidden_size")),
    )


def _read_predictor(predictor: Section, *, input_size: int) -> PredictorConfig:
    _refuse_unsupported(predictor)
    return PredictorConfig(**predictor.fields(PredictorConfig, without=("input_size",)), input_size=input_size)


def _refuse_unsupported(section: Section) -> None:
    # No published checkpoint uses these; computing without them would be silently wrong.
    _require(section, "hidden_act", "silu")
    for key in ("attention_bias", "use_sliding_window"):
        if key in section and section.flag(key):
            raise section.error(key, "is true, only false is supported")
    if "rope_scaling" in section:
        # The three sections of M-RoPE see equal positions in speech, so it is plain RoPE.
        scaling = section.section("rope_scaling")
        _require(scaling, "rope_type" if "rope_type" in scaling else "type", "default")


def _require(section: Section, key: str, expected: str) -> None:
    if section.text(key) != expected:
        raise section.error(key, f"is {section.text(key)!r}, only {expected!r} is supported")


def _read_ids(section: Section, size: int) -> dict[str, int]:
    return {name.lower(): section.index(name, size) for name in section}


def _read_dialects(talker: Section, languages: Mapping[str, int]) -> dict[str, str]:
    dialects = {name.lower(): dialect for name, dialect in talker.names("spk_is_dialect").items()}
    if unknown := set(dialects.values()) - languages.keys():
        raise talker.error("spk_is_dialect", f"names {min(unknown)!r}, which codec_language_id doesn't have")
    return dialects


def _read_extras(block: Section, speakers: Mapping[str, int]) -> VoiceExtras:
    text = block.text("text")
    if text not in ("normalize", "raw"):
        raise block.error("text", f"is {text!r}, expected 'normalize' or 'raw'")
    speaker = block.text("default_speaker")
    if speakers and speaker.lower() not in speakers:
        raise block.error("default_speaker", f"is {speaker!r}, expected one of {', '.join(sorted(speakers))}")
    return VoiceExtras(
        text=text,
        letters_per_second=block.positive("letters_per_second"),
        default_speaker=speaker,
    )
