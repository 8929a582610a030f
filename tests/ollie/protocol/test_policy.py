"""Reading sandbox policies: what is understood, and what is said about what is not."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.protocol import paths, policy_files
from ollie.protocol.expand import environment, expand, placeholders
from ollie.protocol.policy import (
    Advanced,
    Filesystem,
    General,
    Limits,
    Network,
    Policy,
    PolicyError,
    decode,
    encode,
    parse,
)
from ollie.protocol.why import why

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
lists = st.lists(names, max_size=3).map(tuple)
counts = st.none() | st.integers(1, 1 << 50)
policies = st.builds(
    Policy,
    general=st.builds(General, st.booleans(), st.none() | st.text("abc", min_size=1)),
    filesystem=st.builds(Filesystem, lists, lists, lists, lists),
    network=st.builds(Network, st.booleans(), st.booleans()),
    env=lists,
    limits=st.builds(Limits, counts, counts, counts, counts, counts),
    advanced=st.builds(Advanced, st.booleans(), st.booleans()),
    name=names,
)


@given(policies)
def test_encoding(policy: Policy) -> None:
    """A policy that was encoded is the same when decoded, its name included."""
    assert decode(encode(policy)) == policy
    assert decode(encode(policy)).name == policy.name


@pytest.mark.parametrize("empty", [None, {}, {"filesystem": None, "env": None, "limits": {"memory": None}}])
def test_nothing_given_is_nothing_allowed(empty: object) -> None:
    """An empty file is a policy that allows nothing."""
    assert parse(empty) == Policy()
    assert parse(empty).network == Network(enabled=False, unix_sockets=False)


def test_all_keys() -> None:
    """Every key of a file arrives where it belongs."""
    policy = parse(
        {
            "general": {"best_effort": False, "user": "tools"},
            "filesystem": {"ro": ["/a"], "rox": ["/b"], "rw": ["/c"], "rwx": ["/d"]},
            "network": {"enabled": True, "unix_sockets": True},
            "env": ["A", "B=c"],
            "limits": {"memory": "2G", "processes": 5, "file_size": "10K", "cpu_s": 60, "open_files": 100},
            "advanced": {"ldd": True, "add_exec": True},
        },
        "mine",
    )
    assert policy == Policy(
        General(best_effort=False, user="tools"),
        Filesystem(("/a",), ("/b",), ("/c",), ("/d",)),
        Network(enabled=True, unix_sockets=True),
        ("A", "B=c"),
        Limits(2 << 30, 5, 10 << 10, 60, 100),
        Advanced(ldd=True, add_exec=True),
    )
    assert policy.name == "mine"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"filesystem": {"roxx": []}}, "unknown key: filesystem.roxx (did you mean filesystem.rox? known: "),
        (
            {"netwrk": {}},
            "unknown key: netwrk (did you mean network? known: general filesystem network limits advanced env)",
        ),
        ({"network": {"unix_socket": True}}, "unknown key: network.unix_socket (did you mean network.unix_sockets? "),
        ({"network": {"enabled": "yes"}}, "network.enabled must be true or false, not 'yes'"),
        ({"filesystem": {"ro": "/etc"}}, "filesystem.ro must be a list of strings, not '/etc'"),
        ({"filesystem": {"ro": [1]}}, "filesystem.ro must be a list of strings, not [1]"),
        ({"env": "A"}, "env must be a list of strings, not 'A'"),
        ({"filesystem": []}, "filesystem must hold key: value pairs, not []"),
        ([], "a sandbox file must hold key: value pairs, not []"),
        ({"general": {"user": 5}}, "general.user must be the name of a user, not 5"),
        ({"limits": {"memory": "lots"}}, "limits.memory must be a whole number above 0, for example 512M, not 'lots'"),
        ({"limits": {"memory": True}}, "limits.memory must be a whole number above 0, for example 512M, not True"),
        ({"limits": {"processes": "2K"}}, "limits.processes must be a whole number above 0, not '2K'"),
        ({"limits": {"cpu_s": 0}}, "limits.cpu_s must be a whole number above 0, not 0"),
        ({"limits": {"cpu_s": 1.5}}, "limits.cpu_s must be a whole number above 0, not 1.5"),
    ],
)
def test_errors(content: object, error: str) -> None:
    """What is wrong is named with its key, and the nearest that is known."""
    with pytest.raises(PolicyError) as raised:
        parse(content)
    assert str(raised.value).startswith(error)


VALUES = {"CWD": "/proj/here", "HOME": "/home/me", "TMPDIR": "/tmp/mine"}


@pytest.mark.parametrize(
    ("path", "expanded"),
    [
        ("{CWD}", "/proj/here"),
        ("{HOME}/.x/../y/", "/home/me/y"),
        ("~/x", "/home/me/x"),
        ("~", "/home/me"),
        ("//usr//lib/", "/usr/lib"),
        ("/", "/"),
        ("/a{TMPDIR}", "/a/tmp/mine"),
    ],
)
def test_expand(path: str, expanded: str) -> None:
    """Placeholders are replaced and paths made normal."""
    assert expand(Policy(filesystem=Filesystem(rw=(path,))), VALUES).filesystem.rw == (expanded,)


def test_expand_environment() -> None:
    """A variable with a value may use placeholders, a name is left alone."""
    assert expand(Policy(env=("CACHE={TMPDIR}/c", "{NAME}")), VALUES).env == ("CACHE=/tmp/mine/c", "{NAME}")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("{CWDD}/x", "unknown placeholder in filesystem.rw: {CWDD} (did you mean {CWD}? known: {CWD} {HOME} {TMPDIR})"),
        ("relative/x", "filesystem.rw: relative/x is not an absolute path"),
        ("~other/x", "filesystem.rw: ~other/x is not an absolute path"),
    ],
)
def test_expand_errors(path: str, error: str) -> None:
    """A placeholder that does not exist and a relative path are refused."""
    with pytest.raises(PolicyError) as raised:
        expand(Policy(filesystem=Filesystem(rw=(path,))), VALUES)
    assert str(raised.value) == error


def test_placeholders_resolve_links(tmp_path: Path) -> None:
    """A working directory that is a link stands for what it leads to."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    values = placeholders(str(tmp_path / "link"), str(tmp_path / "link"), {"HOME": str(tmp_path / "link")})
    assert {values[name] for name in ("CWD", "TMPDIR", "HOME")} == {str(tmp_path.resolve() / "real")}


def test_placeholders_follow_the_environment() -> None:
    """XDG and Ollie's directories have their defaults, and the environment goes before."""
    values = placeholders("/", "/tmp", {"HOME": "/h", "XDG_DATA_HOME": "/data", "OLLIE_CFG_PATH": "/cfg"})
    assert values["XDG_CONFIG_HOME"] == "/h/.config"
    assert values["OLLIE_CFG_PATH"] == "/cfg"
    assert values["OLLIE_DATA_PATH"] == "/data/ollie"
    assert values["OLLIE_CACHE_PATH"] == "/h/.cache/ollie"
    assert "XDG_RUNTIME_DIR" not in values


def test_placeholders_are_the_directories_of_ollie() -> None:
    """What a placeholder of a directory stands for is where Ollie has it, whatever the environment says."""
    env = {"HOME": "/h", "XDG_DATA_HOME": "relative", "OLLIE_CFG_PATH": "~/cfg", "XDG_CACHE_HOME": "/cache/"}
    values = placeholders("/", "/tmp", env)
    assert values["XDG_DATA_HOME"] == "/h/.local/share"
    assert values["OLLIE_CFG_PATH"] == paths.config_path(env) == "/h/cfg"
    assert values["OLLIE_DATA_PATH"] == paths.data_path(env)
    assert values["OLLIE_CACHE_PATH"] == paths.cache_path(env)


def test_environment() -> None:
    """A tool gets the usual variables and what its policy names; nothing else passes."""
    server = {"PATH": "/bin", "LC_ALL": "C", "HOME": "/h", "SECRET": "s", "EXTRA": "e", "TMPDIR": "/tmp"}
    policy = Policy(env=("EXTRA", "GIVEN=x=y", "ABSENT"))
    assert environment(policy, server, {"TMPDIR": "/mine", "OLLIE_AGENT_ID": "7"}) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "HOME": "/h",
        "EXTRA": "e",
        "GIVEN": "x=y",
        "TMPDIR": "/mine",
        "OLLIE_AGENT_ID": "7",
    }
    assert "SECRET" not in environment(None, server, {})


@pytest.mark.parametrize("name", ["default", "strict"])
def test_shipped(name: str, tmp_path: Path) -> None:
    """The shipped policies can be read and expanded; each allows the working directory and not the home directory."""
    policy = expand(policy_files.load(name, str(tmp_path)), placeholders("/proj", "/tmp", {"HOME": "/home/me"}))
    assert policy.name == name
    assert why(policy, "/proj/file", "write") is None
    assert why(policy, "/home/me/.ssh/id_ed25519", "read")
    assert why(policy, "/usr/bin/git", "execute") is None
    assert why(policy, "/dev/null", "write") is None
    assert (why(policy, "host", "connect") is None) == (name == "default")
    assert (why(policy, "/proj/a.out", "execute") is None) == (name == "default")


def test_files_of_the_user_go_first(tmp_path: Path) -> None:
    """sandbox.yaml is `default`; sandbox/NAME.yaml is NAME, shipped or not."""
    (tmp_path / "sandbox").mkdir()
    (tmp_path / "sandbox.yaml").write_text("env: [FIRST]\n")
    (tmp_path / "sandbox" / "default.yaml").write_text("env: [SECOND]\n")
    (tmp_path / "sandbox" / "mine.yaml").write_text("env: [MINE]\n")
    (tmp_path / "sandbox" / "bad name.yaml").write_text("")
    assert policy_files.load("default", str(tmp_path)).env == ("FIRST",)
    (tmp_path / "sandbox.yaml").unlink()
    assert policy_files.load("default", str(tmp_path)).env == ("SECOND",)
    assert policy_files.load("mine", str(tmp_path)).env == ("MINE",)
    assert policy_files.names(str(tmp_path)) == ["default", "mine", "strict"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("env: [", ": not valid YAML: line 1: "),
        ("envv: []", ": unknown key: envv (did you mean env? known: "),
        ("\x00", ": not valid YAML: "),
    ],
)
def test_bad_files(tmp_path: Path, content: str, error: str) -> None:
    """A file that cannot be understood is named, with the line where that is known."""
    file = tmp_path / "sandbox.yaml"
    file.write_text(content + "\n")
    with pytest.raises(PolicyError) as raised:
        policy_files.load("default", str(tmp_path))
    assert str(raised.value).startswith(f"{file}{error}")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("none", "unknown sandbox: none (known: default strict)"),
        ("../x", "bad sandbox name '../x'"),
        ("", "bad sandbox name ''"),
    ],
)
def test_unknown_names(tmp_path: Path, name: str, error: str) -> None:
    """A name without a file lists those that there are; a name that is a path is none."""
    with pytest.raises(PolicyError) as raised:
        policy_files.load(name, str(tmp_path))
    assert str(raised.value) == error


@given(policies)
def test_a_policy_that_an_earlier_version_stored(policy: Policy) -> None:
    """It is without what policies have had since then."""
    values = json.loads(encode(policy))
    del values["real"], values["written"]
    assert decode(json.dumps(values)) == policy
