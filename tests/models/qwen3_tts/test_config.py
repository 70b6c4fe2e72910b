from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tiny_codec
from ouzel.errors import CheckpointError
from ouzel.models.qwen3_tts.config import VoiceExtras, config_from_dict, load_config, load_generation_config
from tiny_talker import config, write_checkpoint

CODEC = {
    "decoder_config": tiny_codec.DECODER,
    "encoder_config": tiny_codec.ENCODER,
    "output_sample_rate": 24000,
    "decode_upsample_rate": 1920,
    "encoder_valid_num_quantizers": 4,
}
OUZEL = {"text": "normalize", "letters_per_second": 15.0, "default_speaker": "ryan"}


def changed(path: str, value: Any, model_type: str = "custom_voice") -> dict[str, Any]:
    """A tiny config.json with one key changed, or removed where the value is `...`."""
    top = config("large", model_type)
    *parents, key = path.split(".")
    block = top
    for parent in parents:
        block = block[parent]
    if value is ...:
        del block[key]
    else:
        block[key] = value
    return top


def test_sizes_and_ids_are_those_of_the_file(tmp_path: Path) -> None:
    read = load_config(write_checkpoint(tmp_path, "large", "custom_voice"))
    assert (read.talker.hidden_size, read.talker.predictor.hidden_size, read.talker.predictor.input_size) == (
        64,
        48,
        64,
    )
    assert (read.talker.num_code_groups, read.talker.first_special_id, read.talker.ids.eos) == (16, 128, 230)
    assert read.speakers == {"ryan": 728, "eric": 729}
    assert read.dialects == {"eric": "sichuan_dialect"}
    assert read.spoken_languages == ["chinese", "english"]
    assert read.codec is None
    assert read.speaker_encoder is None
    assert read.extras is None


def test_the_codec_has_a_file_of_its_own(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "small", "base")
    (folder / "speech_tokenizer").mkdir()
    (folder / "speech_tokenizer" / "config.json").write_text(json.dumps(CODEC))
    read = load_config(folder)
    assert read.codec is not None
    assert read.codec.encoder is not None
    assert read.codec.decoder.upsample_rates == (8, 5, 4, 3)
    assert (read.codec.sample_rate, read.codec.samples_per_frame, read.codec.num_code_groups) == (24000, 1920, 4)


def test_a_codec_without_encoder_cannot_clone() -> None:
    decoder_only = {key: value for key, value in CODEC.items() if key != "encoder_config"}
    read = config_from_dict(config("small", "custom_voice"), decoder_only)
    assert read.codec is not None
    assert read.codec.encoder is None


def test_a_published_speaker_encoder_speaks_only_of_its_width() -> None:
    block = {"enc_dim": 1024, "sample_rate": 24000}
    read = config_from_dict(changed("speaker_encoder_config", block, "base")).speaker_encoder
    assert read is not None
    assert (read.enc_dim, read.mel_dim, read.enc_channels[-1]) == (1024, 128, 1536)


@pytest.mark.parametrize(
    ("size", "model_type", "takes"),
    [
        ("small", "custom_voice", False),
        ("large", "custom_voice", True),
        ("large", "voice_design", True),
        ("large", "base", False),
    ],
)
def test_who_takes_instructions(size: str, model_type: str, takes: bool) -> None:
    assert config_from_dict(config(size, model_type)).takes_instruct is takes


def test_our_own_voices_say_how_they_want_their_text() -> None:
    assert config_from_dict(changed("ouzel", OUZEL)).extras == VoiceExtras("normalize", 15.0, "ryan")


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("talker_config.head_dim", ..., "talker_config.head_dim is missing, expected a whole number"),
        ("talker_config.hidden_size", "64", "talker_config.hidden_size is '64', expected a whole number"),
        ("talker_config.num_hidden_layers", True, "num_hidden_layers is True, expected a whole number"),
        ("talker_config.rms_norm_eps", None, "rms_norm_eps is None, expected a number"),
        ("talker_config.codec_eos_token_id", ..., "codec_eos_token_id is missing"),
        ("talker_config.code_predictor_config", 3, "code_predictor_config is 3, expected an object"),
        ("talker_config.code_predictor_config.num_code_groups", 8, "num_code_groups is 8, the talker's is 16"),
        ("talker_config.spk_is_dialect", {"eric": 3}, "spk_is_dialect is {'eric': 3}, expected a name or false"),
        ("talker_config.attention_bias", True, "attention_bias is true, only false is supported"),
        ("talker_config.rope_scaling", {"type": "yarn"}, "rope_scaling.type is 'yarn', only 'default' is supported"),
        ("talker_config.code_predictor_config.use_sliding_window", True, "use_sliding_window is true"),
        ("talker_config.hidden_act", "gelu", "hidden_act is 'gelu', only 'silu' is supported"),
        ("tokenizer_type", "25hz", "tokenizer_type is '25hz'"),
        ("tts_pad_token_id", ..., "tts_pad_token_id is missing"),
        ("tts_model_type", "custom", "tts_model_type is 'custom', expected one of base, custom_voice, voice_design"),
        ("tts_pad_token_id", 99999, "tts_pad_token_id is 99999, expected 0 to"),
        ("im_start_token_id", -1, "im_start_token_id is -1, expected 0 to"),
        ("talker_config.codec_pad_id", 1152, "codec_pad_id is 1152, expected 0 to 1151"),
        ("talker_config.codec_eos_token_id", 5, "codec_eos_token_id is 5, expected 128 to 1151"),
        ("talker_config.codec_language_id", {"english": 1152}, "codec_language_id.english is 1152, expected 0 to 1151"),
        ("talker_config.spk_id", {"ryan": 1152}, "spk_id.ryan is 1152, expected 0 to 1151"),
        ("talker_config.spk_is_dialect", {"eric": "beijing"}, "names 'beijing', which codec_language_id doesn't"),
        ("talker_config.hidden_size", -1, "talker_config.hidden_size is -1, expected above 0"),
        ("talker_config.rope_theta", 0, "talker_config.rope_theta is 0, expected above 0"),
        ("ouzel", OUZEL | {"text": "loud"}, "ouzel.text is 'loud', expected 'normalize' or 'raw'"),
        ("ouzel", OUZEL | {"letters_per_second": 0}, "ouzel.letters_per_second is 0, expected above 0"),
        ("ouzel", OUZEL | {"default_speaker": "joe"}, "ouzel.default_speaker is 'joe', expected one of eric, ryan"),
    ],
)
def test_a_fault_names_file_and_key(path: str, value: Any, complaint: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        config_from_dict(changed(path, value), source="voices/x/config.json")
    assert str(caught.value).startswith("voices/x/config.json: ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("output_sample_rate", 0, "output_sample_rate is 0, expected above 0"),
        ("decode_upsample_rate", 1000, "decode_upsample_rate is 1000, the rates give 1920"),
        ("decoder_config", tiny_codec.DECODER | {"sliding_window": 0}, "sliding_window is 0, expected above 0"),
        ("decoder_config", tiny_codec.DECODER | {"upsample_rates": [8, -1]}, "upsample_rates is [8, -1], expected"),
    ],
)
def test_a_fault_of_the_codec_names_file_and_key(key: str, value: Any, complaint: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        config_from_dict(config("small", "custom_voice"), CODEC | {key: value})
    assert str(caught.value).startswith("speech_tokenizer/config.json: ")
    assert complaint in str(caught.value)


def test_a_base_checkpoint_needs_its_speaker_encoder() -> None:
    with pytest.raises(CheckpointError, match="speaker_encoder_config is missing"):
        config_from_dict(changed("speaker_encoder_config", ..., "base"))


@pytest.mark.parametrize("content", ["{", "[]", "\xff"])
def test_a_torn_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_config(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"generation_config\.json is missing"):
        load_generation_config(tmp_path)


def test_sampling_defaults_are_those_of_the_file(tmp_path: Path) -> None:
    read = load_generation_config(write_checkpoint(tmp_path, "small", "custom_voice"))
    assert (read.temperature, read.top_k, read.repetition_penalty, read.max_new_tokens) == (0.9, 50, 1.05, 8192)
    assert (read.sub_do_sample, read.sub_temperature, read.sub_top_k, read.sub_top_p) == (True, 0.9, 50, 1.0)
