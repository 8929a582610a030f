"""The examples that users are shown, typed as they stand."""

import http.server
import json
import threading
from collections.abc import Iterator

import pytest
from house import House

SCRIPT = """
turns:
  - prompt: list the files here
    replies:
      - text: I look.
        calls: [{name: shell, arguments: {cmd: ls}}]
      - text: "There are: {result}"
  - prompt: how many files are here?
    replies:
      - calls: [{name: shell, arguments: {cmd: "ls | wc -l"}}]
      - text: "{result}"
  - prompt: say hello in French
    replies: [{text: Bonjour}]
  - prompt: what is in this directory?
    replies:
      - calls: [{name: shell, arguments: {cmd: ls}}]
      - text: "These: {result}"
  - match: ^what caused this
    replies: [{text: "{prompt}"}]
  - replies: [{text: "you said {prompt}"}]
"""

# What `ip link set lo up` does: netdevice(7), SIOCSIFFLAGS with IFF_UP.
LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket() as sock:
    fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 1))
"""


class Completions(http.server.BaseHTTPRequestHandler):
    """A server that is compatible with OpenAI's chat completions, and always says hello."""

    def do_POST(self) -> None:
        """Note the request and answer it."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Authorization"], request))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for choice in ({"delta": {"content": "hello"}}, {"delta": {}, "finish_reason": "stop"}):
            self.wfile.write(f"data: {json.dumps({'choices': [{'index': 0, **choice}]})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def compatible() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Completions) as server:
        server.requests = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def replay(house: House) -> None:
    """Agents that need no model, in a directory with three files."""
    house.replay(SCRIPT)
    for name in ("a.txt", "b.txt", "error.log"):
        (house.work / name).write_text(f"this is {name}\n")


def test_the_main_job(house: House) -> None:
    """A server, a session, an agent, a prompt; its chat, its state; a sub-agent; a question; and the end."""
    assert "olliesrv is running" in house.sh("olliesrv start")
    assert house.sh('echo "name=myproj" | ollie-9p write session/new') == ""
    assert house.sh('echo "name=coding cwd=$PWD" | ollie-9p write session/myproj/agent/new') == ""
    assert house.sh('echo "list the files here" | ollie-9p write session/myproj/agent/coding/prompt') == ""
    chat = "> list the files here\n\nI look.\n\nThere are: a.txt\nb.txt\nerror.log\n"
    assert house.sh("ollie-9p read session/myproj/agent/coding/chat") == chat
    assert house.sh("ollie-9p read session/myproj/agent/coding/statewait") == "idle\n"
    blocked = house.begin("ollie-9p", "read", "session/myproj/agent/coding/statewait")
    ask = 'printf "cwd=$PWD\\nprompt=how many files are here?\\n" | ollie-9p rdwr session/myproj/agent/new'
    assert house.sh(ask) == "3\n"
    assert house.sh('echo "say hello in French" | ollie-9p rdwr generate') == "Bonjour\n"
    assert house.sh("ollie-9p ls session/") == "idx\nmyproj\nnew\n"
    assert house.sh("echo stop | ollie-9p write session/myproj/agent/coding/ctl") == ""
    assert blocked.poll() is None
    assert "has ended" in house.sh("olliesrv stop")
    assert blocked.communicate() == ("", "ollie-9p: the server hung up\n")


def test_a_state_that_is_waited_for(house: House) -> None:
    """A second `statewait` blocks until the next turn has begun or ended."""
    house.sh("olliesrv start; echo name=myproj | ollie-9p write session/new")
    house.sh("echo name=coding cwd=$PWD | ollie-9p write session/myproj/agent/new")
    blocked = house.begin("ollie-9p", "read", "session/myproj/agent/coding/statewait")
    house.sh("echo hello | ollie-9p write session/myproj/agent/coding/prompt")
    out, err = blocked.communicate()
    assert (out in {"running\n", "idle\n"}, err) == (True, "")


def test_any_compatible_server(house: House, compatible: http.server.ThreadingHTTPServer) -> None:
    """Four variables make agents speak to a server that is compatible with OpenAI's."""
    port = compatible.server_address[1]
    house.sh(
        f"OPENAI_BASE_URL=http://127.0.0.1:{port}/v1 OPENAI_API_KEY=x OLLIE_BACKEND=openai OLLIE_MODEL=m olliesrv start"
    )
    assert house.sh('o ask "what is in this directory?"') == "hello\n"
    ((path, key, request),) = compatible.requests  # type: ignore[attr-defined]
    assert (path, key, request["model"]) == ("/v1/chat/completions", "Bearer x", "m")


def test_one_shot_questions(house: House) -> None:
    """`o ask` needs no server that runs, prints the reply only, and takes standard input."""
    assert house.run("o", "ask", "what is in this directory?").stdout == "These: a.txt\nb.txt\nerror.log\n"
    assert house.sh('cat error.log | o ask "what caused this?"') == "what caused this?\n\nthis is error.log\n"


# The project directory of the reference, in the mount namespace of the house only. What else is in /home stays there:
# this checkout may be.
PROJECT = """
was=${NAMESPACE%/ns}/was
mkdir "$was"
mount --rbind /home "$was"
mount -t tmpfs none /home
for each in "$was"/*/; do
    [ -d "$each" ] || continue
    mkdir -p "/home/${each#"$was/"}"
    mount --rbind "$each" "/home/${each#"$was/"}"
done
mkdir -p /home/user/project
"""


def test_the_reference(house: House) -> None:
    """Every example of the reference that needs no mount."""
    house.sh(PROJECT)
    house.sh("olliesrv start")
    house.sh('echo "name=myproj" | ollie-9p write session/new')
    house.sh('echo "name=coding cwd=/home/user/project" | ollie-9p write session/myproj/agent/new')
    house.sh('echo "fix the bug in main.go" | ollie-9p write session/myproj/agent/coding/prompt')
    said = "> fix the bug in main.go\n\nyou said fix the bug in main.go\n"
    assert house.sh("ollie-9p read session/myproj/agent/coding/chat") == said
    assert house.sh("ollie-9p read session/myproj/agent/coding/statewait") == "idle\n"
    ask = "printf 'cwd=/home/user/project\\nprompt=fix the failing tests\\n'   | ollie-9p rdwr session/myproj/agent/new"
    assert house.sh(ask) == "you said fix the failing tests\n"
    assert house.sh("ollie-9p ls session/") == "idx\nmyproj\nnew\n"
    assert house.sh("echo 'summarize this repo' | ollie-9p rdwr generate") == "you said summarize this repo\n"
    assert (
        house.sh("""echo '{"prompt":"explain recursion"}' | ollie-9p rdwr generate""") == "you said explain recursion\n"
    )
    assert house.sh("echo stop | ollie-9p rdwr session/myproj/agent/coding/ctl") == "nothing to stop\n"
    assert house.sh("ollie-9p read session/myproj/env").startswith("OLLIE_SESSION_ID=")
    assert house.sh("echo renamed | ollie-9p write session/myproj/agent/coding/name") == ""
    assert house.sh("ollie-9p read session/myproj/agent/renamed/chat") == said
    assert house.sh("echo remember | ollie-9p write session/myproj/agent/renamed/plan") == ""
    assert house.sh("ollie-9p read session/myproj/agent/renamed/plan") == "remember\n"
    assert "max_steps=7" in house.sh(
        "echo max_steps=7 | ollie-9p write session/myproj/agent/renamed/cfg; "
        "ollie-9p read session/myproj/agent/renamed/cfg"
    )
    assert house.sh("echo kill | ollie-9p rdwr session/myproj/ctl") == "killed\n"
    assert house.sh("ollie-9p ls session/") == "idx\nnew\n"


def test_from_another_machine(house: House) -> None:
    """A server that listens on TCP without the secret is read by any 9P client, here under the name `9p`."""
    (house.path / "up.py").write_text(LOOPBACK_UP)
    script = """
    python "${NAMESPACE%/ns}/up.py"
    echo 127.0.0.1 server >hosts
    mount --bind hosts /etc/hosts
    9p() { ollie-9p "$@"; }
    olliesrv start --listen 'tcp!*!5640' --no-auth
    echo name=myproj | ollie-9p write session/new
    echo name=coding | ollie-9p write session/myproj/agent/new
    echo hello | 9p -a 'tcp!server:5640' write session/myproj/agent/coding/prompt
    9p -a 'tcp!server:5640' read session/myproj/agent/coding/wait
    # From another machine:
    9p -a 'tcp!server:5640' read session/myproj/agent/coding/statewait
    """
    done = house.run("unshare", "--net", "--mount", "bash", "-euc", script)
    assert done.stdout.splitlines()[1:] == ["idle", "idle"], done.stderr
    assert done.stderr.startswith("olliesrv: warning: --no-auth")
