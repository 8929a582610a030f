"""The environment of a tool."""

from ollie.toolsrv.environment import tool_environment

INHERITED = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "TMPDIR": "/tmp",
    "OPENAI_API_KEY": "secret",
    "LD_PRELOAD": "/x.so",
    "OLLIE_AGENT_ID": "forged",
    "GOPATH": "/go",
}


def test_only_what_is_listed_passes() -> None:
    """Secrets, preloads and forged identities do not; TMPDIR is the session's."""
    assert tool_environment(INHERITED, (), tmpdir="/t", session="s1", agent="a1") == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "TMPDIR": "/t",
        "OLLIE_SESSION_ID": "s1",
        "OLLIE_AGENT_ID": "a1",
    }


def test_a_policy_passes_names_and_sets_values() -> None:
    """`NAME` lets a variable through, `NAME=value` sets it, an unset name is nothing."""
    env = tool_environment(INHERITED, ["GOPATH", "CI=1", "UNSET"], tmpdir="/t", session="", agent="")
    assert env == {"PATH": "/bin", "LC_ALL": "C", "TMPDIR": "/t", "GOPATH": "/go", "CI": "1"}
