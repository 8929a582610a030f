"""Directories from the environment, and what is refused as private."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ollie.protocol import paths


@pytest.mark.parametrize(
    ("function", "environ", "expected"),
    [
        (paths.config_path, {}, "{home}/.config/ollie"),
        (paths.config_path, {"XDG_CONFIG_HOME": "{home}/xdg/"}, "{home}/xdg/ollie"),
        (paths.config_path, {"XDG_CONFIG_HOME": "relative"}, "{home}/.config/ollie"),
        (paths.config_path, {"XDG_CONFIG_HOME": "{home}/x", "OLLIE_CFG_PATH": "{home}/own"}, "{home}/own"),
        (paths.config_path, {"OLLIE_CFG_PATH": "~/own"}, "{home}/own"),
        (paths.config_path, {"OLLIE_CFG_PATH": ""}, "{home}/.config/ollie"),
        (paths.data_path, {}, "{home}/.local/share/ollie"),
        (paths.data_path, {"XDG_DATA_HOME": "{home}/d"}, "{home}/d/ollie"),
        (paths.data_path, {"OLLIE_DATA_PATH": "{home}/e"}, "{home}/e"),
        (paths.cache_path, {}, "{home}/.cache/ollie"),
        (paths.cache_path, {"XDG_CACHE_HOME": "{home}/c"}, "{home}/c/ollie"),
        (paths.cache_path, {"OLLIE_CACHE_PATH": "{home}/f"}, "{home}/f"),
    ],
)
def test_directories(
    function: Callable[[dict[str, str]], str], environ: dict[str, str], expected: str, tmp_path: Path
) -> None:
    """Each comes from its variable, the base directory specification or the home directory; none is made."""
    env = {"HOME": str(tmp_path)} | {name: value.format(home=tmp_path) for name, value in environ.items()}
    found = function(env)
    assert found == expected.format(home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_data_dir(tmp_path: Path) -> None:
    """The data directory is made, and what is missing above it, for its owner only; it may be there already."""
    env = {"HOME": str(tmp_path)}
    found = paths.data_dir(env)
    assert found == paths.data_path(env)
    assert stat.S_IMODE(Path(found).stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(found).parent.stat().st_mode) == 0o700
    assert paths.data_dir(env) == found


def test_home_of_the_user_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without HOME the user database knows the home directory."""
    monkeypatch.delenv("HOME", raising=False)
    assert paths.secret_file({}) == str(Path("~/.config/ollie/secret").expanduser())


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a mapping the process's own environment counts."""
    monkeypatch.setenv("OLLIE_CFG_PATH", str(tmp_path / "cfg"))
    monkeypatch.delenv("OLLIE_SECRET_FILE", raising=False)
    assert paths.secret_file() == str(tmp_path / "cfg/secret")
    assert not (tmp_path / "cfg").exists()


def test_secret_file_of_its_own() -> None:
    """OLLIE_SECRET_FILE names the file itself."""
    assert paths.secret_file({"OLLIE_SECRET_FILE": "/run/secret"}) == "/run/secret"


@pytest.mark.parametrize("kind", ["tools", "agents", "skills"])
def test_search_path(kind: str) -> None:
    """The variable's directories or the user's come first, the shipped one last."""
    env = {"HOME": "/home/glenda"}
    assert paths.search_path(kind, env) == [f"/home/glenda/.config/ollie/{kind}", paths.shipped(kind)]
    env[f"OLLIE_{kind.upper()}_PATH"] = "/a::~/b"
    assert paths.search_path(kind, env) == ["/a", "/home/glenda/b", paths.shipped(kind)]


def test_shipped_is_in_the_package() -> None:
    """What ships lies in the package's own directories."""
    assert paths.shipped("tools") == str(Path(paths.__file__).parent.parent / "tools")


def test_private_directory(tmp_path: Path) -> None:
    """A private directory is made 0700, also below missing ones, and accepted again."""
    path = str(tmp_path / "a/b")
    assert paths.private_directory(path) == path
    assert paths.private_directory(path) == path
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o700


def test_private_directory_open_to_others(tmp_path: Path) -> None:
    """A directory that others may enter is refused, with the command that closes it."""
    tmp_path.chmod(0o750)
    with pytest.raises(paths.PathError, match=rf"mode 0750\); run: chmod 700 {tmp_path}"):
        paths.private_directory(str(tmp_path))


def test_private_directory_that_is_a_link(tmp_path: Path) -> None:
    """A link to a directory is refused: its owner may turn it elsewhere."""
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(paths.PathError, match="not a directory"):
        paths.private_directory(str(tmp_path / "link"))


def test_private_directory_that_is_a_file(tmp_path: Path) -> None:
    """A file in its place is refused."""
    (tmp_path / "file").touch()
    with pytest.raises(paths.PathError, match="not a directory"):
        paths.private_directory(str(tmp_path / "file"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_private_directory_of_somebody_else(tmp_path: Path) -> None:
    """Somebody else's directory is refused, with the owner named."""
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 4242, 4242)
    with pytest.raises(paths.PathError, match="belongs to uid 4242"):
        paths.private_directory(str(tmp_path / "theirs"))


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A directory below a file is refused with the reason."""
    (tmp_path / "file").touch()
    with pytest.raises(paths.PathError, match=r"file/ollie: cannot be made: not a directory"):
        paths.data_dir({"XDG_DATA_HOME": str(tmp_path / "file")})


def test_log_file(tmp_path: Path) -> None:
    """A log is in a private directory, and set aside when it has become long."""
    env = {"OLLIE_DATA_PATH": str(tmp_path / "data")}
    log = Path(paths.log_file("x", env))
    assert log == tmp_path / "data/logs/x.log"
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    log.write_text("short")
    assert paths.log_file("x", env) == str(log)
    assert log.exists()
    os.truncate(log, 10 * 1024 * 1024 + 1)
    assert paths.log_file("x", env) == str(log)
    assert [path.name for path in log.parent.iterdir()] == ["x.log.1"]
    log.parent.chmod(0o755)
    with pytest.raises(paths.PathError, match="others may enter it"):
        paths.log_file("x", env)


def test_small_to_import() -> None:
    """Command lines import this module and dial: neither brings anything along."""
    imports = "import ninep.dial, ollie.protocol.paths"
    code = f"import sys; before = set(sys.modules); {imports}; print(*sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == [
        "ninep",
        "ninep.dial",
        "ollie",
        "ollie.protocol",
        "ollie.protocol.paths",
        "ollie.protocol.words",
    ]
