"""Which paths of the home directory a tool gets to run what PATH names."""

import os
import sys
from pathlib import Path

import pytest

from ollie.protocol.policy import Advanced, Filesystem, Policy
from ollie.sandbox.programs import OURS, complete, find, libraries, loader, with_libraries

SYSTEM = Filesystem(rox=("/usr", "/bin", "/lib", "/lib64"))
POLICY = Policy(filesystem=SYSTEM, advanced=Advanced(add_exec=True))


def make(home: Path, *files: object) -> None:
    for file in files:
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).touch()


def program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def added(policy: object, home: Path, path: list[str]) -> set[str]:
    """The paths that were added, below the home directory."""
    result = complete(policy, {"PATH": ":".join(str(home / entry) for entry in path), "HOME": str(home)})
    assert result.filesystem.rox[: len(SYSTEM.rox)] == SYSTEM.rox
    return {path.removeprefix(f"{home}/") for path in result.filesystem.rox[len(SYSTEM.rox) :]} - set(OURS)


def test_only_when_asked_for(tmp_path: Path) -> None:
    """Without add_exec nothing is added."""
    make(tmp_path, "bin/tool")
    assert added(Policy(filesystem=SYSTEM), tmp_path, ["bin"]) == set()


def test_system_directories_add_nothing(tmp_path: Path) -> None:
    """Directories that the policy gives already are not listed again."""
    result = complete(POLICY, {"PATH": "/usr/bin:/bin:relative::/no/such", "HOME": str(tmp_path)})
    assert result.filesystem.rox == (*SYSTEM.rox, *OURS)


def test_ollie_itself(tmp_path: Path) -> None:
    """A tool can run Ollie's own commands, wherever its packages are; not where it could change them."""
    assert set(OURS) <= set(complete(POLICY, {"PATH": "/usr/bin", "HOME": str(tmp_path)}).filesystem.rox)
    policy = Policy(filesystem=Filesystem(rox=SYSTEM.rox, rwx=OURS), advanced=Advanced(add_exec=True))
    assert complete(policy, {"PATH": "/usr/bin", "HOME": str(tmp_path)}).filesystem.rox == SYSTEM.rox


def test_a_virtual_environment(tmp_path: Path) -> None:
    """Its interpreter reads `pyvenv.cfg` before it finds its packages."""
    make(tmp_path, "env/bin/python", "env/lib/x", "env/pyvenv.cfg", "env/secret")
    assert added(POLICY, tmp_path, ["env/bin"]) == {"env/bin", "env/lib", "env/pyvenv.cfg"}


def test_installation(tmp_path: Path) -> None:
    """A directory of programs brings the libraries beside it, and not what else lies there."""
    make(tmp_path, "apps/bin/tool", "apps/lib/x", "apps/include/x", "apps/share/private", "apps/secret")
    assert added(POLICY, tmp_path, ["apps/bin"]) == {"apps/bin", "apps/lib", "apps/include"}


def test_never_the_home_directory(tmp_path: Path) -> None:
    """Programs right in the home directory's own bin bring that directory and nothing beside it."""
    make(tmp_path, "bin/tool", "lib/x", "include/x")
    assert added(POLICY, tmp_path, ["bin"]) == {"bin"}
    assert added(POLICY, tmp_path, ["."]) == set()
    assert added(POLICY, tmp_path.parent, [tmp_path.name + "/.."]) == set()


def test_links_lead_to_programs(tmp_path: Path) -> None:
    """A link brings the file that it leads to, alone, when that is one to execute; a tool may have put it there."""
    make(tmp_path, "apps/x/bin/other", "apps/x/lib/l", ".ssh/key", ".local/bin/plain")
    program(tmp_path / "apps/x/bin/tool")
    program(tmp_path / "scripts/one", "\x7fELF")
    program(tmp_path / "scripts/key", "-----BEGIN")
    (tmp_path / "scripts/pipe.d").mkdir()
    os.mkfifo(tmp_path / "scripts/pipe", 0o777)
    for number, target in enumerate(
        [
            "apps/x/bin/tool",
            "apps/x/bin",
            "apps/x",
            "scripts/one",
            "scripts/key",
            "scripts/pipe",
            ".ssh",
            ".ssh/key",
            ".",
        ]
    ):
        (tmp_path / f".local/bin/link{number}").symlink_to(tmp_path / target)
    assert added(POLICY, tmp_path, [".local/bin"]) == {".local/bin", "apps/x/bin/tool", "scripts/one"}


INSTALLATIONS = {"python3.11": "lib/python3.11/os.py", "node": "include/node/node.h", "java": "lib/modules"}


@pytest.mark.parametrize(("name", "library"), INSTALLATIONS.items())
def test_links_lead_to_interpreters(tmp_path: Path, name: str, library: str) -> None:
    """With their libraries, when they are that: programs of this name with this library."""
    for prefix in ("real", "fake"):
        program(tmp_path / prefix / "bin" / name, "\x7fELF")
        make(tmp_path / prefix, "lib/l", "include/i", "secret")
        (tmp_path / prefix / "bin/other").symlink_to(tmp_path / ".ssh")
    make(tmp_path / "real", library)
    make(tmp_path, "env/bin/plain", ".ssh/key")
    (tmp_path / "env/bin/one").symlink_to(tmp_path / "fake/bin" / name)
    fake = {"env/bin", f"fake/bin/{name}"}
    assert added(POLICY, tmp_path, ["env/bin"]) == fake
    (tmp_path / "env/bin/two").symlink_to(tmp_path / "real/bin" / name)
    os.utime(tmp_path / "env/bin", ns=(1, 1))
    real = {f"real/bin/{name}", "real/bin", "real/lib", "real/include"}
    assert added(POLICY, tmp_path, ["env/bin"]) == fake | real


def test_a_directory_that_is_a_link(tmp_path: Path) -> None:
    """In PATH, it brings the programs in the other, and what lies beside one is a link brings nothing."""
    make(tmp_path, "private/bin/key", "private/lib/text", "env/bin/plain", ".ssh/key")
    program(tmp_path / "private/bin/tool")
    (tmp_path / "link").symlink_to(tmp_path / "private")
    (tmp_path / "env/lib").symlink_to(tmp_path / ".ssh")
    assert added(POLICY, tmp_path, ["link/bin", "env/bin"]) == {"private/bin/tool", "env/bin"}


def test_what_is_found_has_no_links_and_stays_so(tmp_path: Path) -> None:
    """None is followed that is there later."""
    make(tmp_path, "env/bin/tool", "env/lib/x", ".pyenv/shims/python", "versions/3/bin/python")
    (tmp_path / ".pyenv/versions").symlink_to(tmp_path / "versions")
    path = f"{tmp_path}/env/bin:{tmp_path}/.pyenv/shims"
    result = complete(POLICY, {"PATH": path, "HOME": str(tmp_path)})
    assert set(result.real) == set(result.filesystem.rox) - set(SYSTEM.rox)
    assert not [path for path in result.real if path.endswith("versions")]


def test_a_home_directory_that_is_a_link(tmp_path: Path) -> None:
    """It is no tool's, so what lies in it is found as if it were none."""
    make(tmp_path, "real/env/bin/tool", "real/env/lib/x")
    (tmp_path / "home").symlink_to("real")
    result = complete(POLICY, {"PATH": f"{tmp_path}/home/env/bin", "HOME": f"{tmp_path}/home"})
    assert {f"{tmp_path}/real/env/bin", f"{tmp_path}/real/env/lib"} <= set(result.filesystem.rox)


def test_version_managers(tmp_path: Path) -> None:
    """Shims bring the versions that they choose from."""
    make(tmp_path, ".pyenv/shims/python", ".pyenv/versions/3/bin/python", ".pyenv/version", ".pyenv/libexec/pyenv")
    make(tmp_path, ".cargo/bin/cargo", ".cargo/credentials.toml", ".rustup/toolchains/x/bin/cargo")
    make(tmp_path, ".rustup/settings.toml")
    assert added(POLICY, tmp_path, [".pyenv/shims", ".cargo/bin"]) == {
        ".pyenv/shims",
        ".pyenv/libexec",
        ".pyenv/versions",
        ".pyenv/version",
        ".cargo/bin",
        ".rustup/toolchains",
        ".rustup/settings.toml",
    }


def test_nothing_that_a_tool_can_write(tmp_path: Path) -> None:
    """A directory of PATH that tools may change leads nowhere: they could place a link to a secret there."""
    make(tmp_path, ".ssh/key")
    program(tmp_path / "work/bin/tool")
    program(tmp_path / "elsewhere/bin/tool")
    (tmp_path / "work/bin/key").symlink_to(tmp_path / ".ssh/key")
    (tmp_path / "work/bin/other").symlink_to(tmp_path / "elsewhere/bin/tool")
    (tmp_path / "elsewhere/bin/back").symlink_to(tmp_path / "work/bin/tool")
    policy = Policy(filesystem=Filesystem(rox=SYSTEM.rox, rwx=(f"{tmp_path}/work",)), advanced=Advanced(add_exec=True))
    assert added(policy, tmp_path, ["work/bin", "elsewhere/bin"]) == {"elsewhere/bin"}


def test_changes_are_seen(tmp_path: Path) -> None:
    """A link that is made later is found."""
    make(tmp_path, "links/plain")
    program(tmp_path / "apps/bin/tool")
    assert added(POLICY, tmp_path, ["links"]) == {"links"}
    (tmp_path / "links/tool").symlink_to(tmp_path / "apps/bin/tool")
    os.utime(tmp_path / "links", ns=(1, 1))
    assert added(POLICY, tmp_path, ["links"]) == {"links", "apps/bin/tool"}


def test_find(tmp_path: Path) -> None:
    """A name is looked for in PATH, a path is meant from the working directory."""
    make(tmp_path, "bin/tool")
    env = {"PATH": f"/no/such:{tmp_path}/bin"}
    assert find("tool", env, "/") is None
    (tmp_path / "bin/tool").chmod(0o755)
    assert find("tool", env, "/") == f"{tmp_path}/bin/tool"
    assert find("./tool", env, f"{tmp_path}/bin") == f"{tmp_path}/bin/tool"


def test_loader(tmp_path: Path) -> None:
    """A dynamic program names its loader; a script, nonsense and a fifo do not, and nobody waits for what is in one."""
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "nonsense").write_bytes(b"\x7fELF\x02" + bytes(100))
    assert loader(str(tmp_path / "script")) is None
    assert loader(str(tmp_path / "nonsense")) is None
    assert loader(str(tmp_path / "no such")) is None
    os.mkfifo(tmp_path / "fifo")
    assert loader(str(tmp_path / "fifo")) is None
    found = loader(os.path.realpath(sys.executable))
    if found is None:
        pytest.skip("this interpreter is linked statically")
    assert Path(found).exists()


def test_a_loader_of_somebodys_own(tmp_path: Path) -> None:
    """It would be run to be asked, so it is none."""
    found = loader(os.path.realpath(sys.executable))
    if found is None:
        pytest.skip("this interpreter is linked statically")
    image = Path(os.path.realpath(sys.executable)).read_bytes()
    own = b"/tmp/own".ljust(len(found), b"\0")
    (tmp_path / "program").write_bytes(image.replace(found.encode(), own, 1))
    assert loader(str(tmp_path / "program")) is None
    (tmp_path / "program").write_bytes(image)
    assert loader(str(tmp_path / "program")) == found


def test_libraries() -> None:
    """The paths of the loader's list, without what is no file."""
    listing = (
        "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f00)\n"
        "\tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f01)\n"
    )
    assert libraries(listing) == ("/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2")
    assert libraries("") == ()


def test_with_libraries(tmp_path: Path) -> None:
    """What a loader names is added once, without links, when it is a library."""
    (tmp_path / "lib.so.1").write_bytes(b"\x7fELF")
    (tmp_path / "lib.so").symlink_to("lib.so.1")
    (tmp_path / "key").write_text("key")
    names = [f"{tmp_path}/{name}" for name in ("lib.so", "lib.so.1", "key", "missing")]
    assert with_libraries(Policy(), names).filesystem.rox == (f"{tmp_path}/lib.so.1",)
