"""An image in an agent's directory, from the tool that shows it to the model that is asked about it."""

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from house import House

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\3"
CALL = {"index": 0, "id": "c1", "function": {"name": "image_view", "arguments": '{"path": "door.png"}'}}
REPLIES = [
    [{"delta": {"tool_calls": [CALL]}}, {"delta": {}, "finish_reason": "tool_calls"}],
    [{"delta": {"content": "A door."}}, {"delta": {}, "finish_reason": "stop"}],
]


class Completions(http.server.BaseHTTPRequestHandler):
    """A server with OpenAI's interface whose model first looks at the image, and then says what it is."""

    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        """Note the request and answer it."""
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for choice in REPLIES[len(self.asked) - 1]:
            self.wfile.write(f"data: {json.dumps({'choices': [{'index': 0, **choice}]})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def asked(house: House) -> Iterator[list[dict[str, Any]]]:
    """What the model is asked by the server of the house."""
    requests: list[dict[str, Any]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Completions,), {"asked": requests}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    house.environ |= {
        "OLLIE_BACKEND": "openai",
        "OLLIE_MODEL": "seeing",
        "OPENAI_API_KEY": "x",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
    }
    house.ok("olliesrv", "start")
    yield requests
    house.ok("olliesrv", "stop")
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_image_reaches_the_model(house: House, asked: list[dict[str, Any]]) -> None:
    """The tool is offered, runs in its sandbox, and what it gave stands behind its result."""
    (house.work / "door.png").write_bytes(PNG)
    house.write("session/new", "name=one")
    house.write("session/one/agent/new", f"name=coder cwd={house.work}")
    house.write("session/one/agent/coder/prompt", "what is door.png?")
    assert house.read("session/one/agent/coder/chat") == "> what is door.png?\n\nA door.\n"
    assert "image_view" in {tool["function"]["name"] for tool in asked[0]["tools"]}
    result, image = asked[1]["messages"][-2:]
    assert result["content"] == f"door.png: image/png, 2x3, {len(PNG)} bytes"
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert image["content"][1] == {"type": "image_url", "image_url": {"url": url}}
