"""The embedded voice's sizes, in one place. The layout is Qwen3-TTS's; only the widths are ours."""

from __future__ import annotations

from ouzel.models.qwen3_tts.codec_config import CodecDecoderConfig

RATE = 24_000
FRAME = 1_920  # samples of a codec frame, 80 ms
GROUPS = 4  # codebooks; of eight, the last four were noise to the talker and 2 points of word error to the codec
CODES = 512  # entries of a codebook
MELS = 80
LATENT_STEPS = 4  # latent steps of a frame (50 a second), each of them two mel frames
LATENT = 2 * MELS  # the vocoder's input is a mel spectrogram, so that it can be trained from the first minute

CODEC = CodecDecoderConfig(
    codebook_size=CODES,
    codebook_dim=128,
    num_quantizers=GROUPS,
    latent_dim=LATENT,
    hidden_size=192,
    intermediate_size=384,
    num_hidden_layers=4,
    num_attention_heads=6,
    num_key_value_heads=6,
    head_dim=32,
    sliding_window=72,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    layer_scale_initial_scale=0.1,
    max_position_embeddings=8000,
    upsampling_ratios=(2, 2),
    upsample_rates=(8, 5, 4, 3),
    decoder_dim=256,
)

# Ids keep the published distance from the end of the codebook: 2048 there, 512 here.
_SHIFT = CODES - 2048
TEXT_VOCAB = 1024
SPEAKER = "joe"
SPECIALS = ("<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")  # the last ids
CONFIG = {
    "architectures": ["Qwen3TTSForConditionalGeneration"],
    "model_type": "qwen3_tts",
    "tokenizer_type": "qwen3_tts_tokenizer_12hz",
    "tts_model_size": "0b6",  # the published mark of a voice that takes no instruction
    "tts_model_type": "custom_voice",
    "im_start_token_id": TEXT_VOCAB - 5,
    "im_end_token_id": TEXT_VOCAB - 4,
    "tts_pad_token_id": TEXT_VOCAB - 3,
    "tts_bos_token_id": TEXT_VOCAB - 2,
    "tts_eos_token_id": TEXT_VOCAB - 1,
    "talker_config": {
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        # read by the official package alone: its three sections see equal positions in speech
        "rope_scaling": {"interleaved": True, "mrope_section": [12, 10, 10], "rope_type": "default"},
        "max_position_embeddings": 4096,
        "vocab_size": CODES + 1024,
        "text_vocab_size": TEXT_VOCAB,
        "text_hidden_size": 256,
        "num_code_groups": GROUPS,
        "codec_pad_id": 2148 + _SHIFT,
        "codec_bos_id": 2149 + _SHIFT,
        "codec_eos_token_id": 2150 + _SHIFT,
        "codec_think_id": 2154 + _SHIFT,
        "codec_nothink_id": 2155 + _SHIFT,
        "codec_think_bos_id": 2156 + _SHIFT,
        "codec_think_eos_id": 2157 + _SHIFT,
        "codec_language_id": {"english": 2050 + _SHIFT},
        "spk_id": {SPEAKER: 3000 + _SHIFT},
        "spk_is_dialect": {SPEAKER: False},
        "code_predictor_config": {
            "hidden_size": 192,
            "intermediate_size": 512,
            "num_hidden_layers": 3,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "head_dim": 64,
            "hidden_act": "silu",
            "attention_bias": False,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10_000.0,
            "max_position_embeddings": 64,
            "vocab_size": CODES,
            "num_code_groups": GROUPS,
        },
    },
    "ouzel": {"text": "normalize", "letters_per_second": 15.0, "default_speaker": SPEAKER},
}
GENERATION = {
    "do_sample": True,
    "temperature": 0.3,
    "top_k": 50,
    "top_p": 0.9,
    "repetition_penalty": 1.0,
    "subtalker_dosample": False,  # drawn at 0.3 and above, the finer codebooks cost up to ten points of word error
    "subtalker_temperature": 0.5,
    "subtalker_top_k": 50,
    "subtalker_top_p": 0.9,
    "max_new_tokens": 2048,
}
