from __future__ import annotations

import re

import pytest
from running import Running

from ouzel import __version__
from ouzel.gateway.speaker import Health, State

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEECH = "/v1/audio/speech"
LINE = re.compile(r'[a-z_]+(\{([a-z_]+="(\\.|[^"\\\n])*",?)+\})? [-+0-9.e]+')


async def test_while_loading_the_server_lives_and_is_not_ready(server: Running) -> None:
    server.speaker.state = Health(State.LOADING, "weights 1/3")
    health = await server.http.get("/health")
    assert (health.status_code, health.json()) == (200, {"status": "ok", "speech": "loading", "detail": "weights 1/3"})
    for path in ("/ready", "/v1/audio/voices"):
        reply = await server.http.get(path)
        assert reply.status_code == 503
    reply = await server.http.get("/ready")
    assert reply.json() == {
        "error": {"message": "Loading model: weights 1/3", "type": "unavailable_error", "param": None, "code": 503}
    }
    assert (await server.http.post(SPEECH, json={"input": "Hello."})).status_code == 503
    server.speaker.state = Health(State.READY, facts={"first_audio_ms": 180})
    assert (await server.http.get("/ready")).json() == {"status": "ready"}
    assert (await server.http.get("/health")).json()["first_audio_ms"] == 180


async def test_models_and_voices_in_every_shape(server: Running) -> None:
    models = (await server.http.get("/v1/models")).json()
    assert [model["id"] for model in models["data"]] == ["ouzel-fake"]
    assert (await server.http.get("/v1/models/ouzel-fake")).json() == models["data"][0]
    voices = (await server.http.get("/v1/audio/voices")).json()
    assert voices["voices"] == voices["data"]
    assert [voice["id"] for voice in voices["voices"][:3]] == ["wren", "robin", "alloy"]
    assert len(voices["voices"]) == 2 + 13


async def test_the_version_says_what_runs(server: Running) -> None:
    assert (await server.http.get("/version")).json()["version"] == __version__


async def test_the_front_is_a_page_for_browsers_and_a_line_for_others(server: Running) -> None:
    plain = await server.http.get("/")
    assert plain.text == f"Ouzel {__version__} speaks at POST /v1/audio/speech\n"
    page = await server.http.get("/", headers={"Accept": "text/html,*/*"})
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"(src|href)=.https?:", page.text)


async def test_metrics_are_counted_and_well_formed(server: Running) -> None:
    await server.http.post(SPEECH, json={"input": "Hello there, all.", "response_format": "pcm"})
    reply = await server.http.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = [line for line in reply.text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    values = dict(line.rsplit(" ", 1) for line in lines)
    assert float(values['ouzel_requests_total{kind="tts",outcome="ok"}']) >= 1
    assert float(values["ouzel_frames_total"]) >= 8
    assert float(values['ouzel_step_seconds_count{phase="backbone"}']) >= 2
    assert values['ouzel_model_loaded{model="ouzel-fake"}'] == "1"
    assert float(values['ouzel_tts_continuity_ok_total{threshold_ms="200"}']) >= 1
    assert float(values["process_resident_memory_bytes"]) > 1e6


async def test_the_schema_tells_the_request(server: Running) -> None:
    schema = (await server.http.get("/openapi.json")).json()
    body = schema["paths"][SPEECH]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"input", "voice", "response_format", "speed", "stream_format"} <= body["properties"].keys()
    assert "$ref" not in str(body)
