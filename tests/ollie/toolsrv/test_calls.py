"""Calls that run to their end: what they get, what they give, how they fail."""

import json
from pathlib import Path

import pytest
from serving import ToolServer, call, load, whole

from ninep.errors import NinepError
from ollie.protocol import payload
from ollie.protocol.limits import RESULT_BYTES
from ollie.protocol.policy_files import SHIPPED
from ollie.protocol.result import ImageContent


async def _sh(toolsrv: ToolServer, agent: str, cmd: str, tool: str = "sh", **fields: str) -> tuple[str, bool]:
    """Text and failure of one script."""
    async with await toolsrv.client() as client:
        await load(client, agent, tool)
        given = await call(client, agent, tool, cmd=cmd, **fields)
    return given.text, given.is_error


ENDINGS = [
    ("echo out; echo err >&2", "out\nerr\n"),
    ("true", ""),
    ("printf no-newline", "no-newline"),
    ("echo said; exit 3", "said\nexit status 3"),
    ("printf said; exit 3", "said\nexit status 3"),
    ("kill -9 $$", "killed by signal 9"),
    ("exit 255", "exit status 255"),
]


@pytest.mark.parametrize(("cmd", "text"), ENDINGS)
async def test_a_result_says_what_was_printed_and_how_it_ended(
    toolsrv: ToolServer, agent: str, cmd: str, text: str
) -> None:
    """Both streams in order; the last line tells exit status and signal apart, and only then it is an error."""
    failed = text.rpartition("\n")[2].startswith(("exit", "killed"))
    assert await _sh(toolsrv, agent, cmd) == (text, failed)


@pytest.mark.parametrize(("fields", "limit"), [({}, "0.5"), ({"timeout": "0.2"}, "0.2")])
async def test_a_call_ends_in_time(toolsrv: ToolServer, agent: str, fields: dict[str, str], limit: str) -> None:
    """The tool's limit holds unless the call names one; what was printed before is kept, and nothing stays alive."""
    text, is_error = await _sh(toolsrv, agent, "echo before; sleep 1000.25", "quick", **fields)
    assert is_error
    assert text == f"before\ntimed out after {limit} s"
    assert not [line for line in toolsrv.processes() if "1000.25" in line]


HARD = ["", "a\nb", "'\"`\\", "-rf --", "$(echo no) ${HOME} `id`", "\\n", "\t\0\x01\x7f", "é𝄞\u2028", "x" * (1 << 20)]


@pytest.mark.parametrize("text", HARD, ids=range(len(HARD)))
async def test_arguments_arrive_as_they_are(toolsrv: ToolServer, agent: str, text: str) -> None:
    """On standard input as JSON, in a field of the payload and in `args` alike."""
    async with await toolsrv.client() as client:
        await load(client, agent, "echo")
        for fields in ({"text": text}, {"args": json.dumps({"text": text})}):
            assert json.loads(whole((await call(client, agent, "echo", **fields)).text)) == {"text": text}


async def test_arguments_of_a_command_are_quoted(toolsrv: ToolServer, agent: str) -> None:
    """No value leaves its quotes, and NUL, which no argument can hold, is refused."""
    assert await _sh(toolsrv, agent, "printf '%s' '$(echo no) \"'") == ('$(echo no) "', False)
    text, is_error = await _sh(toolsrv, agent, "echo \0")
    assert is_error
    assert "NUL" in text


async def test_fields_are_converted_and_checked_by_the_schema(toolsrv: ToolServer, agent: str) -> None:
    """A number arrives as one; what does not fit is an error for the model, and nothing runs."""
    async with await toolsrv.client() as client:
        await load(client, agent, "echo")
        assert json.loads((await call(client, agent, "echo", count="3")).text) == {"count": 3}
        refused = await call(client, agent, "echo", count="three")
        assert refused.is_error
        assert "count" in refused.text


async def test_a_tool_that_is_not_loaded_is_an_error_for_the_model(toolsrv: ToolServer, agent: str) -> None:
    """Also when the host offers it, and when another agent has it."""
    async with await toolsrv.client() as client:
        await load(client, f"other-{agent}", "sh")
        given = await call(client, agent, "sh", cmd="true")
        assert given.is_error
        assert given.text == "tool not loaded: sh"


async def test_a_directory_is_the_calls_own_or_the_servers(toolsrv: ToolServer, agent: str, tmp_path: Path) -> None:
    """`cwd` is absolute or below the server's directory; one that is missing or no directory is named."""
    (toolsrv.work / "sub").mkdir(exist_ok=True)
    (tmp_path / "file").touch()
    assert await _sh(toolsrv, agent, "pwd") == (f"{toolsrv.work}\n", False)
    assert await _sh(toolsrv, agent, "pwd", cwd="sub") == (f"{toolsrv.work}/sub\n", False)
    assert await _sh(toolsrv, agent, "pwd", cwd=str(tmp_path)) == (f"{tmp_path}\n", False)
    missing = f"cannot run in {tmp_path}/none: no such directory"
    assert await _sh(toolsrv, agent, "pwd", cwd=f"{tmp_path}/none") == (missing, True)
    no_directory = f"cannot run in {tmp_path}/file: not a directory"
    assert await _sh(toolsrv, agent, "pwd", cwd=f"{tmp_path}/file") == (no_directory, True)


async def test_a_tool_may_remove_its_own_directory(toolsrv: ToolServer, agent: str, tmp_path: Path) -> None:
    """The call ends as any other, and the next one is refused clearly."""
    (tmp_path / "d" / "e").mkdir(parents=True)
    cwd = str(tmp_path / "d" / "e")
    assert await _sh(toolsrv, agent, f"cd .. && rmdir {cwd} && echo gone", cwd=str(tmp_path / "d")) == ("gone\n", False)
    assert (await _sh(toolsrv, agent, "true", cwd=cwd))[1]


async def test_standard_input_is_at_its_end_and_there_is_no_terminal(toolsrv: ToolServer, agent: str) -> None:
    """A tool that reads gets end of file, one that asks on the terminal finds none."""
    text, is_error = await _sh(toolsrv, agent, "cat; echo end; if (: </dev/tty) 2>/dev/null; then echo tty; fi")
    assert (text, is_error) == ("end\n", False)


PRINTED = [
    (r"printf '\303'; printf '\251\n'", "é\n"),
    (r"printf 'a\377b'", "a\ufffdb"),
    (r"printf '10%%\r50%%\r100%%\n'", "100%\n"),
    (r"printf '\033[31mred\033[0m \033]0;title\007plain\n'", "red plain\n"),
]


@pytest.mark.parametrize(("cmd", "text"), PRINTED)
async def test_output_is_plain_text(toolsrv: ToolServer, agent: str, cmd: str, text: str) -> None:
    """Decoded as UTF-8, without control sequences and redrawn lines."""
    assert await _sh(toolsrv, agent, cmd) == (text, False)


@pytest.mark.parametrize("size", [RESULT_BYTES - 1, RESULT_BYTES, RESULT_BYTES + 1])
async def test_results_at_the_limit_are_whole_and_above_it_cut(toolsrv: ToolServer, agent: str, size: int) -> None:
    """A cut result fits, and names a file that a tool of the session can read and that has everything."""
    text, _ = await _sh(toolsrv, agent, f"head -c {size} /dev/zero | tr '\\0' x")
    assert len(text.encode()) <= RESULT_BYTES
    if size <= RESULT_BYTES:
        assert text == "x" * size
    else:
        assert whole(text) == "x" * size


async def test_a_flood_in_one_line_is_drained_and_cut(toolsrv: ToolServer, agent: str) -> None:
    """100 MB without a newline: head and tail are there, the end says what was lost, memory stays flat."""
    before = toolsrv.memory_bytes()
    text, is_error = await _sh(toolsrv, agent, "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert not is_error
    assert text.startswith("first\nxxx")
    assert "\nlast\n" in text
    assert "all that was kept" in text
    assert len(text.encode()) <= RESULT_BYTES
    assert toolsrv.memory_bytes() - before < 64 * 1024 * 1024


async def test_output_without_end_is_drained_until_time_is_up(toolsrv: ToolServer, agent: str) -> None:
    """A program that never stops printing is ended as any other."""
    text, is_error = await _sh(toolsrv, agent, "exec yes", "quick")
    assert is_error
    assert text.startswith("y\ny\n")
    assert text.endswith("\ntimed out after 0.5 s")


async def test_no_tool_makes_the_server_write_elsewhere(toolsrv: ToolServer, agent: str) -> None:
    """Links that a tool puts where outputs are kept are not followed."""
    target = toolsrv.home / "target"
    text, _ = await _sh(
        toolsrv, agent, f"for n in $(seq 200); do ln -sf {target} $TMPDIR/output-$n.txt; done; seq 20000"
    )
    assert whole(text).endswith("\n20000\n")
    assert not target.exists()


async def test_what_a_call_leaves_running_is_ended_and_told(toolsrv: ToolServer, agent: str) -> None:
    """A child that keeps the pipe does not hang the call; the result names new.bg, and nothing is alive."""
    text, is_error = await _sh(toolsrv, agent, "sleep 1000.5 & setsid sleep 1000.5 & echo done")
    assert not is_error
    assert text.startswith("done\n")
    assert "new.bg" in text
    assert not [line for line in toolsrv.processes() if "1000.5" in line]


async def test_blocks_carry_images(toolsrv: ToolServer, agent: str) -> None:
    """A tool with `output: blocks` prints a ToolResult; what it says on standard error is not part of it."""
    block = '{"content":[{"type":"image","data":"iVBORw==","mimeType":"image/png"},{"type":"text","text":"a dot"}]}'
    async with await toolsrv.client() as client:
        await load(client, agent, "blocks")
        given = await call(client, agent, "blocks", cmd=f"echo noise >&2; echo '{block}'")
    assert not given.is_error
    assert given.content[0] == ImageContent(b"\x89PNG", "image/png")
    assert given.text == "a dot"


@pytest.mark.parametrize(
    ("cmd", "last"), [("echo oops", "result is not JSON"), ("echo oops; echo why >&2; exit 2", "exit status 2")]
)
async def test_blocks_that_are_none_are_an_error(toolsrv: ToolServer, agent: str, cmd: str, last: str) -> None:
    """What was printed instead is kept."""
    text, is_error = await _sh(toolsrv, agent, cmd, "blocks")
    assert is_error
    assert text.startswith("oops\n")
    assert text.splitlines()[-1].startswith(last)


async def test_a_denial_is_explained(toolsrv: ToolServer, agent: str) -> None:
    """The result says which policy refused which path, above its last line."""
    secret = toolsrv.home / "secret"
    secret.write_text("x")
    text, is_error = await _sh(toolsrv, agent, f"cat {secret}")
    assert is_error
    assert text.splitlines()[-1] == "exit status 1"
    assert "sandbox policy default" in text
    assert str(secret) in text.splitlines()[-3]
    assert "bypass: true" in text.splitlines()[-2]


async def test_the_policy_that_refused_is_named(toolsrv: ToolServer, agent: str) -> None:
    """Of the tool's own and the one that a call asks for besides, with what was tried, and the key that would do."""
    script = "cp /bin/true t; ./t"
    assert await _sh(toolsrv, agent, script) == ("", False)
    text, _ = await _sh(toolsrv, agent, script, sandbox="strict")
    where = toolsrv.work / "t"
    keyed = f"allow it with {where}, or a directory above it, in filesystem.rox]"
    assert f"[the sandbox policy strict does not allow executing {where}; {keyed}" in text
    text, _ = await _sh(toolsrv, agent, "echo > /etc/n", sandbox="default")
    assert "[the sandbox policy default does not allow writing /etc/n; allow it with /etc/n, " in text
    text, _ = await _sh(toolsrv, agent, "echo > /etc/n", sandbox="strict")
    assert "[the sandbox policies default and strict do not allow writing /etc/n; allow it with /etc/n, " in text


@pytest.mark.parametrize("cmd", ["bash -c 'kill 1'", "kill 1", "chown 1 .", "false"])
async def test_what_no_policy_refused_is_not_explained(toolsrv: ToolServer, agent: str, cmd: str) -> None:
    """Nor is a run without the sandbox offered."""
    text, is_error = await _sh(toolsrv, agent, cmd)
    assert is_error
    assert "sandbox policy" not in text
    assert "bypass" not in text


async def test_a_directory_that_cannot_be_is_named(toolsrv: ToolServer, agent: str) -> None:
    """Its name is too long for a file system."""
    text, is_error = await _sh(toolsrv, agent, "true", cwd="/" + "a" * 5000)
    assert is_error
    assert text.startswith("cannot run in /aaa")
    assert text.endswith("…: no such directory")


# Refused by nobody, or by the policy.
CONNECT = "bash -c ': </dev/tcp/127.0.0.1/1'"


async def test_a_call_may_tighten_its_sandbox_and_not_leave_it(toolsrv: ToolServer, agent: str) -> None:
    """`sandbox` names a policy that holds as well; an unknown policy is named."""
    assert "Connection refused" in (await _sh(toolsrv, agent, CONNECT))[0]
    assert "Permission denied" in (await _sh(toolsrv, agent, CONNECT, sandbox="strict"))[0]
    text, is_error = await _sh(toolsrv, agent, "true", sandbox="none-such")
    assert is_error
    assert "unknown sandbox: none-such" in text


async def test_an_agents_own_sandbox_takes_the_place_of_the_tools(toolsrv: ToolServer, agent: str) -> None:
    """The field `agent.sandbox` names it; a call cannot loosen that."""
    for more in ({}, {"sandbox": "default"}):
        text, _ = await _sh(toolsrv, agent, CONNECT, **{"agent.sandbox": "strict"}, **more)
        assert "Permission denied" in text


async def test_the_environment_is_allow_listed(toolsrv: ToolServer, agent: str) -> None:
    """A tool gets its identity and what the request supplies for allowed names, and nothing else."""
    fields = {"session": "s-1", "env.TZ": "UTC", "env.OPENAI_API_KEY": "secret", "env.LD_PRELOAD": "x.so"}
    text, _ = await _sh(
        toolsrv, agent, "env | cut -d= -f1; echo $OLLIE_AGENT_ID $OLLIE_SESSION_ID $TZ $TMPDIR", **fields
    )
    *names, values = text.splitlines()
    assert values.startswith(f"{agent} s-1 UTC {toolsrv.home}/tmp/")
    allowed = {
        "PATH",
        "HOME",
        "LANG",
        "TZ",
        "TMPDIR",
        "OLLIE_SESSION_ID",
        "OLLIE_AGENT_ID",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
    }
    assert set(names) <= allowed


async def test_a_request_cannot_have_its_search_path_read(toolsrv: ToolServer, agent: str) -> None:
    """`add_exec` goes by the server's PATH and HOME: who asks for a call may name others, which the tool gets."""
    vault = toolsrv.home / "vault"
    vault.mkdir()
    (vault / "key").write_text("key")
    fields = {"env.PATH": f"{vault}:/usr/bin:/bin", "env.HOME": "/nonexistent"}
    text, is_error = await _sh(toolsrv, agent, f"echo $PATH $HOME; cat {vault}/key", **fields)
    assert text.startswith(f"{vault}:/usr/bin:/bin /nonexistent\ncat: {vault}/key: Permission denied\n")
    assert is_error


async def test_a_directory_that_became_a_link_is_refused(toolsrv: ToolServer, agent: str) -> None:
    """An agent that works above it could have made it one."""
    (toolsrv.home / "elsewhere").mkdir()
    link = toolsrv.work / "became-a-link"
    link.symlink_to(toolsrv.home / "elsewhere")
    text, _ = await _sh(toolsrv, agent, "pwd", cwd=str(link))
    assert text == f"cannot run in {link}: a link leads to {toolsrv.home}/elsewhere, name that instead"
    link.unlink()


async def test_a_tool_that_is_a_link(toolsrv: ToolServer, agent: str) -> None:
    """Its program runs; what lies beside that is out of reach, for somebody else may have made the link."""
    private = toolsrv.home / "private-tools"
    private.mkdir()
    (private / "key").write_text("key")
    program = private / "program"
    metadata = "# ---\n# name: linked\n# description: .\n# ---\n"
    program.write_text(f"#!/bin/sh\n{metadata}echo ran; cat {private}/key || echo not the key\n")
    program.chmod(0o700)
    (toolsrv.home / "tools/linked").symlink_to(program)
    async with await toolsrv.client() as client:
        await load(client, agent, "linked")
        text = (await call(client, agent, "linked")).text
    assert text.endswith(": Permission denied\nnot the key\n")
    (toolsrv.home / "tools/linked").unlink()


async def test_a_temporary_directory_that_became_a_link_is_not_followed(toolsrv: ToolServer, agent: str) -> None:
    """An agent that works above it can move it away; then no other agent has one, and nothing else instead."""
    (toolsrv.home / "private").mkdir()
    above = str(toolsrv.home / "tmp")
    swap = f"d=$(dirname $TMPDIR); mv $d moved; mkdir $d; ln -s {toolsrv.home}/private $d/tmp"
    assert await _sh(toolsrv, agent, swap, cwd=above) == ("", False)
    try:
        text, _ = await _sh(toolsrv, f"other-{agent}", "ls $TMPDIR/; touch $TMPDIR/planted")
    finally:
        _, failed = await _sh(toolsrv, agent, "d=$(dirname $TMPDIR); rm -r $d; mv moved $d", cwd=above)
        assert not failed
    assert text.count("Permission denied") == 2
    assert not list((toolsrv.home / "private").iterdir())


async def test_a_policy_that_is_edited_holds_for_the_next_call(toolsrv: ToolServer, agent: str) -> None:
    """Its text is read each time; one of equal content goes by its own name."""
    named = toolsrv.home / "config" / "sandbox"
    named.mkdir(parents=True)
    strict = (SHIPPED / "strict.yaml").read_text()
    secret = toolsrv.home / "secret"
    secret.write_text("secret")
    (named / "mine.yaml").write_text(strict)
    refused = f"the sandbox policy mine does not allow reading {secret}"
    assert refused in (await _sh(toolsrv, agent, f"cat {secret}", **{"agent.sandbox": "mine"}))[0]
    (named / "mine.yaml").write_text(strict.replace("  ro:\n", f"  ro:\n    - {secret}\n"))
    assert await _sh(toolsrv, agent, f"cat {secret}", **{"agent.sandbox": "mine"}) == ("secret", False)
    (named / "mine.yaml").write_text(strict)
    assert refused in (await _sh(toolsrv, agent, f"cat {secret}", **{"agent.sandbox": "mine"}))[0]
    (named / "yours.yaml").symlink_to("mine.yaml")
    text, _ = await _sh(toolsrv, agent, f"cat {secret}", **{"agent.sandbox": "yours"})
    assert "the sandbox policy yours does not allow" in text
    (named / "yours.yaml").unlink()
    text, _ = await _sh(toolsrv, agent, "true", **{"agent.sandbox": "yours"})
    assert "unknown sandbox: yours" in text


async def test_one_agents_tmpdir_is_private_to_the_session(toolsrv: ToolServer, agent: str) -> None:
    """Mode 0700, and writable for tools."""
    assert await _sh(toolsrv, agent, "stat -c %a $TMPDIR; mktemp >/dev/null") == ("700\n", False)


BAD = [(b"cmd=true\n", "payload has no tool"), (b"tool\n", "payload line 1"), (b"\xff", "payload is not utf-8")]


@pytest.mark.parametrize(("data", "error"), BAD)
async def test_a_payload_that_cannot_be_read_is_refused(toolsrv: ToolServer, data: bytes, error: str) -> None:
    """It is the client's mistake, so it is an error of the file."""
    async with await toolsrv.client() as client:
        with pytest.raises(NinepError, match=error):
            await client.rdwr("proc/new", data)


async def test_a_wrong_token_is_refused_and_the_right_one_taken(toolsrv: ToolServer, agent: str) -> None:
    """The token comes from the authentication; it may be left out."""
    async with await toolsrv.client() as client:
        await load(client, agent, "sh")
        assert (await call(client, agent, token=client.token.decode(), cmd="echo x")).text == "x\n"
        with pytest.raises(NinepError, match="wrong token"):
            await call(client, agent, token="0" * 32, cmd="true")


async def test_a_request_that_nobody_reads_is_refused(toolsrv: ToolServer, agent: str) -> None:
    """A bare write of `proc/new` would run something for nobody."""
    async with await toolsrv.client() as client:
        with pytest.raises(NinepError):
            await client.write("proc/new", payload.format({"tool": "sh", "agent": agent, "cmd": "true"}))
