from __future__ import annotations

import json

import httpx
import pytest
from running import Running, running, until, with_gateway
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEECH = "/v1/audio/speech"
BODY = {"input": "Hello.", "voice": "alloy"}
KEY = "s3cret-ключ"


async def refusal(url: str, **options: object) -> tuple[int, dict[str, object]]:
    """Status and error of a WebSocket that isn't accepted."""
    with pytest.raises(InvalidStatus) as caught:
        await connect(url, **options)  # type: ignore[arg-type]
    return caught.value.response.status_code, json.loads(caught.value.response.body)["error"]


async def test_v1_needs_the_key_and_the_rest_does_not() -> None:
    async with running(key=KEY) as server:
        for path in (SPEECH, "/v1/models", "/v1/audio/voices", "/v1/nothing"):
            reply = await server.http.get(path)
            assert (reply.status_code, reply.json()["error"]["type"]) == (401, "authentication_error")
            assert reply.headers["www-authenticate"] == "Bearer"
        for path in ("/health", "/ready", "/metrics", "/version", "/"):
            assert (await server.http.get(path)).status_code == 200


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
async def test_the_key_opens_by_either_header(name: str) -> None:
    async with running(key=KEY) as server:
        before = "bearer " if name == "Authorization" else ""
        for key, status in ((KEY, 200), (KEY + "x", 401), ("x", 401)):
            headers = {name: (before + key).encode()}
            assert (await server.http.post(SPEECH, json=BODY, headers=headers)).status_code == status
        assert (await server.http.post(f"{SPEECH}?api_key={KEY}", json=BODY)).status_code == 401


async def test_a_socket_is_refused_before_it_is_accepted() -> None:
    async with running(key="s3cret") as server:
        assert (await refusal(server.socket_url))[0] == 401
        status, error = await refusal(f"{server.socket_url}?api_key=wrong")
        assert (status, error["message"]) == (401, "the API key is wrong")
        async with connect(f"{server.socket_url}?api_key=s3cret"):
            pass
        async with connect(server.socket_url, additional_headers={"Authorization": "Bearer s3cret"}):
            pass


async def preflight(server: Running, origin: str) -> httpx.Response:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    return await server.http.options(SPEECH, headers={"Origin": origin} | asked)


async def test_no_page_of_others_may_call_by_default(server: Running) -> None:
    reply = await preflight(server, "http://elsewhere")
    assert reply.status_code == 200
    assert "access-control-allow-origin" not in reply.headers
    reply = await server.http.post(SPEECH, json=BODY, headers={"Origin": "http://elsewhere"})
    assert (reply.status_code, reply.json()["error"]["type"]) == (403, "permission_error")
    assert "gateway.cors_origins" in reply.json()["error"]["message"]
    assert (await refusal(server.socket_url, origin="http://elsewhere"))[0] == 403
    assert (await refusal(server.socket_url, origin="null"))[0] == 403


async def test_the_servers_own_page_may_call(server: Running) -> None:
    own = f"http://127.0.0.1:{server.port}"
    assert (await server.http.post(SPEECH, json=BODY, headers={"Origin": own})).status_code == 200
    async with connect(server.socket_url, origin=own):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("origins", [("*",), ("http://app",)])
async def test_pages_that_are_named_may_call_with_a_key(origins: tuple[str, ...]) -> None:
    async with running(with_gateway(cors_origins=origins), key="k") as server:
        reply = await preflight(server, "http://app")
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == "http://app"
        assert reply.headers["access-control-allow-headers"] == "authorization,content-type"
        for key, status in (("k", 200), ("x", 401)):
            headers = {"Origin": "http://app", "Authorization": f"Bearer {key}"}
            reply = await server.http.post(SPEECH, json=BODY, headers=headers)
            assert reply.status_code == status
            assert reply.headers["access-control-allow-origin"] == "http://app"
            assert "Origin" in reply.headers["vary"]


async def test_so_many_speech_connections_and_no_more() -> None:
    async with running(with_gateway(max_sockets=1)) as server:
        async with connect(server.socket_url):
            status, error = await refusal(server.socket_url)
            assert (status, error["type"]) == (429, "rate_limit_error")
            reply = await server.http.post(SPEECH, json=BODY)
            assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
            assert (await server.http.get("/health")).status_code == 200
        await until(lambda: server.server.server_state.tasks == set())
        assert (await server.http.post(SPEECH, json=BODY)).status_code == 200


async def test_a_request_keeps_its_number(server: Running) -> None:
    reply = await server.http.get("/health", headers={"X-Request-Id": "mine-1"})
    assert reply.headers["x-request-id"] == "mine-1"
    for odd in ("", "a b", "x" * 129, "ü"):
        reply = await server.http.get("/health", headers={"X-Request-Id": odd.encode()})
        assert len(reply.headers["x-request-id"]) == 32


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/version", "/metrics", "/v1/models", "/v1/audio/voices"])
async def test_head_is_get_without_the_body(server: Running, path: str) -> None:
    reply = await server.http.head(path)
    assert (reply.status_code, reply.content) == (200, b"")
    assert (await server.http.options(path)).headers["allow"] == "GET, HEAD, POST, OPTIONS"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", SPEECH, 405), ("DELETE", "/v1/models", 405), ("GET", "/v1/models/tts-9", 404)],
)
async def test_what_http_refuses_is_the_same_object(server: Running, method: str, path: str, status: int) -> None:
    reply = await server.http.request(method, path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, status)
    assert reply.json()["error"].keys() == {"message", "type", "param", "code"}
