"""Ways out of the sandbox by what a request, or a directory that tools write to, makes of a policy; from inside."""

from pathlib import Path

import pytest
from house import House

SCRIPT = """
turns:
  - match: "^run "
    replies:
      - calls: [{name: shell, arguments: {cmd: "{prompt}"}}]
      - text: "done: {result}"
"""
POLICY = Path(__file__).parents[2] / "src/ollie/protocol/sandbox/strict.yaml"

# Puts another directory in the place of one, and back, without end.
SWAP = """
import ctypes
exchange = ctypes.CDLL(None).renameat2
while True:
    exchange(-100, b"sub", -100, b"link", 2)
"""


@pytest.fixture
def server(house: House) -> House:
    """A server with one agent, whose tools may not read `out/key`; a directory of the agent's is in PATH."""
    script = house.path / "script.yaml"
    script.write_text(SCRIPT)
    house.environ |= {"OLLIE_BACKEND": "replay", "OLLIE_REPLAY": str(script)}
    house.environ["PATH"] = f"{house.work}/env/bin:{house.environ['PATH']}"
    for directory in (house.work / "env/bin", house.path / "out/bin"):
        directory.mkdir(parents=True)
    for name in ("key", "bin/key"):
        (house.path / "out" / name).write_text("secret\n")
    house.ok("olliesrv", "start")
    house.write("session/new", "name=one")
    make(house, "coder", house.work)
    return house


def make(house: House, name: str, cwd: Path) -> None:
    house.write("session/one/agent/new", f"name={name} cwd={cwd}")


def run(house: House, script: str, agent: str = "coder") -> str:
    """What a script prints, in a tool of an agent."""
    house.write(f"session/one/agent/{agent}/prompt", f"run () {{ {script}\n}}; run 2>&1")
    return house.read(f"session/one/agent/{agent}/chat").rpartition("done: ")[2].strip()


def test_an_agent_sets_no_variables(server: House) -> None:
    """Of what it asks for itself; the owner may."""
    payload = f"printf 'tool=shell\\nenv.PATH=/usr/bin:/bin:{server.path}/out\\ncmd=cat {server.path}/out/key\\n'"
    refused = "env.PATH is the owner's to set: set it in the command"
    for file in ("new", "new.bg"):
        assert refused in run(server, f"{payload} | ollie-9p rdwr session/one/toolsrv/proc/{file}")
    owners = "tool=shell\nagent=coder\nenv.TZ=Mars\ncmd=echo $TZ\n"
    assert "Mars" in server.ok("ollie-9p", "rdwr", "session/one/toolsrv/proc/new", stdin=owners)


def test_a_directory_that_is_swapped_while_a_call_begins(server: House) -> None:
    """What was judged by its name is what is entered and granted, or nothing is."""
    (server.work / "swap.py").write_text(SWAP)
    script = f"""
    mkdir sub; ln -s {server.path}/out link
    python3 swap.py & swapping=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        printf 'tool=shell\\ncwd=sub\\ncmd=cat key; echo planted >planted\\n' |
            ollie-9p rdwr session/one/toolsrv/proc/new
    done
    kill $swapping"""
    assert "secret" not in run(server, script)
    assert not (server.path / "out/planted").exists()


def test_a_directory_above_that_is_swapped_while_a_call_begins(server: House) -> None:
    """As above, for a directory below the one that is swapped."""
    (server.work / "swap.py").write_text(SWAP)
    script = f"""
    mkdir -p sub/bin; ln -s {server.path}/out link
    python3 swap.py & swapping=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        printf 'tool=shell\\ncwd=sub/bin\\ncmd=cat key; echo planted >planted\\n' |
            ollie-9p rdwr session/one/toolsrv/proc/new
    done
    kill $swapping"""
    assert "secret" not in run(server, script)
    assert not (server.path / "out/bin/planted").exists()


def test_a_path_of_a_policy_that_a_tool_replaces(server: House) -> None:
    """The link that a tool puts there is not followed, and what it leads to stays out of reach."""
    text = POLICY.read_text().replace("  rwx: []", '  rwx: ["{CWD}/bin"]')
    (server.config / "sandbox.yaml").write_text(text)
    (server.work / "bin").mkdir()
    assert run(server, f"rm -r bin; ln -s {server.path}/out bin") == "(no output)"
    said = run(server, "cat bin/key; echo planted >bin/planted")
    assert "secret" not in said
    assert f"[not allowed, for it leads through a link: {server.work}/bin]" in said
    assert said.count("Permission denied") == 2
    assert not (server.path / "out/planted").exists()


def test_a_path_of_a_policy_that_a_tool_of_another_replaces(server: House) -> None:
    """Who may not write there follows no link there either."""
    text = POLICY.read_text().replace("  ro:\n", f"  ro:\n    - {server.work}/data\n")
    (server.config / "sandbox.yaml").write_text(text)
    for directory in ("sub", "data"):
        (server.work / directory).mkdir()
    (server.work / "data/text").write_text("for all\n")
    make(server, "below", server.work / "sub")
    assert run(server, "cat ../data/text", "below") == "for all"
    assert run(server, f"mv data moved; ln -s {server.path}/out data") == "(no output)"
    said = run(server, "cat ../data/key", "below")
    assert "Permission denied" in said
    assert "secret" not in said


@pytest.mark.parametrize("target", ["key", ".", "bin/key", "bin"])
def test_a_link_that_is_planted_in_path(server: House, target: str) -> None:
    """A sub-agent may not write where the link lies; that says nothing about who made it."""
    (server.work / "sub").mkdir()
    make(server, "below", server.work / "sub")
    assert run(server, f"ln -s {server.path}/out/{target} env/bin/foo") == "(no output)"
    said = run(server, f"cat {server.path}/out/key {server.path}/out/bin/key", "below")
    assert said.count("Permission denied") == 2
    assert "secret" not in said


@pytest.mark.parametrize("place", ["env", "env/bin", "env/lib"])
def test_a_directory_of_path_that_is_replaced(server: House, place: str) -> None:
    """By a link, as a whole."""
    (server.work / "sub").mkdir()
    make(server, "below", server.work / "sub")
    assert run(server, f"rm -rf {place}; ln -s {server.path}/out {place}") == "(no output)"
    said = run(server, f"cat {server.path}/out/key {server.path}/out/bin/key", "below")
    assert said.count("Permission denied") == 2
    assert "secret" not in said


def test_the_directories_of_temporary_files(server: House) -> None:
    """No agent works above them or in one: it could read those of other sessions, and put links there."""
    run(server, "true")
    (tools,) = (server.path / "tmp").glob("ollie-tools.*")
    for cwd in (server.path / "tmp", server.path, tools, tools / "tmp"):
        said = server.fails("ollie-9p", "write", "session/one/agent/new", stdin=f"name=below cwd={cwd}")
        assert "ollie's own director" in said
        assert "(choose " in said
    (server.path / "tmp/work").mkdir()
    make(server, "below", server.path / "tmp/work")
