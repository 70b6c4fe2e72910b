from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import tiny_codec
from ouzel.errors import CheckpointError
from ouzel.models.qwen3_tts.checkpoint import load_checkpoint, load_codec_decoder, load_talker_side
from ouzel.quantization.linear import FourBitLinear
from seeded import seeded_weights
from tiny_ours import tiny_decoder, tiny_encoder, tiny_speaker_encoder
from tiny_prompts import CASES
from tiny_speech import spec
from tiny_talker import GENERATION, config, dump, weights, write_checkpoint, write_weights


def write_codec(folder: Path, *, clones: bool) -> None:
    codec = folder / "speech_tokenizer"
    codec.mkdir()
    top = {
        "decoder_config": tiny_codec.DECODER,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encoder_valid_num_quantizers": tiny_codec.VALID_QUANTIZERS,
    }
    modules = {"decoder.": tiny_decoder()}
    if clones:
        top["encoder_config"] = tiny_codec.ENCODER
        modules["encoder."] = tiny_encoder()
    (codec / "config.json").write_text(json.dumps(top))
    write_weights(
        codec, {p + key: v.numpy() for p, module in modules.items() for key, v in module.state_dict().items()}
    )


def whole(folder: Path, model_type: str) -> Path:
    write_checkpoint(folder, "small", model_type)
    write_codec(folder, clones=model_type == "base")
    if model_type == "base":
        top = config("small", model_type)
        top["speaker_encoder_config"] = tiny_codec.SPEAKER
        (folder / "config.json").write_text(json.dumps(top))
        state = tiny_speaker_encoder().state_dict()
        extra = {f"speaker_encoder.{key}": value.numpy() for key, value in state.items()}
        write_weights(folder, weights(top) | extra)
    return folder


def test_a_voice_that_clones_has_all_its_parts(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(whole(tmp_path, "base"))
    assert checkpoint.codec_encoder is not None
    assert checkpoint.speaker_encoder is not None
    codes = torch.zeros(1, 4, 2, dtype=torch.int64)
    assert torch.equal(checkpoint.codec_decoder(codes), tiny_decoder()(codes))
    assert not checkpoint.talker.training
    parts = (checkpoint.talker, checkpoint.predictor, checkpoint.codec_decoder)
    assert not any(parameter.requires_grad for part in parts for parameter in part.parameters())


def test_a_voice_without_encoders_cannot_clone(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(whole(tmp_path, "custom_voice"))
    assert checkpoint.codec_encoder is None
    assert checkpoint.speaker_encoder is None


@pytest.mark.parametrize(("size", "case"), [("small", "custom"), ("large", "custom_instruct")])
def test_shards_load_as_one_file_does(tmp_path: Path, size: str, case: str) -> None:
    one = load_talker_side(write_checkpoint(tmp_path / "one", size, "custom_voice"))
    three = load_talker_side(write_checkpoint(tmp_path / "three", size, "custom_voice", shards=3))
    for part in ("talker", "predictor"):
        whole_file, shards = getattr(one, part).state_dict(), getattr(three, part).state_dict()
        assert whole_file.keys() == shards.keys()
        assert all(torch.equal(tensor, shards[key]) for key, tensor in whole_file.items())
    rows, again = (side.prompts().build(spec(CASES[case])).rows for side in (one, three))
    assert torch.equal(rows, again)


def test_the_main_weights_load_as_the_asked_type(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(whole(tmp_path, "custom_voice"), dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in checkpoint.talker.parameters()} == {torch.bfloat16}
    assert checkpoint.codec_decoder.pre_conv.conv.weight.dtype == torch.float32


def test_a_codec_stored_in_half_precision_loads_as_float32(tmp_path: Path) -> None:
    whole(tmp_path, "custom_voice")
    halves = {f"decoder.{key}": value.half().numpy() for key, value in tiny_decoder().state_dict().items()}
    write_weights(tmp_path / "speech_tokenizer", halves)
    assert {parameter.dtype for parameter in load_codec_decoder(tmp_path).parameters()} == {torch.float32}


def lose_codec(folder: Path) -> None:
    for file in (folder / "speech_tokenizer").iterdir():
        file.unlink()
    (folder / "speech_tokenizer").rmdir()


def lose_codec_weights(folder: Path) -> None:
    (folder / "speech_tokenizer" / "model.safetensors").unlink()


def lose_a_head(folder: Path) -> None:
    tensors = weights(config("small", "custom_voice"))
    del tensors["talker.code_predictor.lm_head.3.weight"]
    write_weights(folder, tensors)


def widen_the_head(folder: Path) -> None:
    changed = seeded_weights({"talker.codec_head.weight": (1152, 65)})
    write_weights(folder, weights(config("small", "custom_voice")) | changed)


def add_a_layer(folder: Path) -> None:
    write_weights(folder, weights(config("small", "custom_voice")) | seeded_weights({"talker.model.layers.3.x": (1,)}))


def cool_it_too_far(folder: Path) -> None:
    dump(folder / "generation_config.json", GENERATION | {"temperature": 0})


def add_a_token(folder: Path) -> None:
    file = folder / "tokenizer_config.json"
    tokenizer = json.loads(file.read_text())
    added = tokenizer["added_tokens_decoder"]
    last = max(map(int, added))
    added |= {str(last + more): added[str(last)] | {"content": f"<{more}>"} for more in range(1, 5)}
    dump(file, tokenizer)


def tear_the_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\0" * 9)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lose_codec, "speech_tokenizer is missing"),
        (lose_codec_weights, "speech_tokenizer/model.safetensors is missing"),
        (lose_a_head, "lm_head.3.weight is missing, expected shape [128, 64]"),
        (widen_the_head, "codec_head.weight has shape [1152, 65], expected [1152, 64]"),
        (add_a_layer, "model.layers.3.x is not expected here"),
        (tear_the_weights, "model.safetensors is torn"),
        (cool_it_too_far, "generation_config.json: temperature is 0.0, expected above 0"),
        (add_a_token, "the tokenizer has ids up to"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Callable[[Path], None], complaint: str) -> None:
    damage(whole(tmp_path, "custom_voice"))
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(tmp_path)
    assert complaint in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_layers_in_four_bits_and_nothing_else(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "small", "custom_voice")
    side, plain = load_talker_side(folder, group=64), load_talker_side(folder)
    for part in ("talker", "predictor"):
        packed = {name for name, layer in getattr(side, part).named_modules() if isinstance(layer, FourBitLinear)}
        linear = {name for name, layer in getattr(plain, part).named_modules() if type(layer) is nn.Linear}
        assert packed == {name for name in linear if name.startswith("model.layers.")}
    talker, wide = side.talker.model.layers[0].mlp.down_proj, plain.talker.model.layers[0].mlp.down_proj
    x = torch.randn(3, wide.in_features)
    error = (talker(x) - wide(x)).norm() / wide(x).norm()
    assert 0.01 < error < 0.2
