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


def test_links_lead_to_their_installation(tmp_path: Path) -> None:
    """A link brings the installation that it leads into; to a single file elsewhere, that file alone."""
    make(tmp_path, "apps/x/bin/tool", "apps/x/lib/l", "scripts/one", "scripts/two", ".local/bin/plain")
    (tmp_path / ".local/bin/tool").symlink_to(tmp_path / "apps/x/bin/tool")
    (tmp_path / ".local/bin/one").symlink_to(tmp_path / "scripts/one")
    assert added(POLICY, tmp_path, [".local/bin"]) == {".local/bin", "apps/x/bin", "apps/x/lib", "scripts/one"}


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
    make(tmp_path, "work/bin/tool", ".ssh/key", "elsewhere/bin/tool")
    (tmp_path / "work/bin/key").symlink_to(tmp_path / ".ssh/key")
    (tmp_path / "work/bin/other").symlink_to(tmp_path / "elsewhere/bin/tool")
    (tmp_path / "elsewhere/bin/back").symlink_to(tmp_path / "work/bin/tool")
    policy = Policy(filesystem=Filesystem(rox=SYSTEM.rox, rwx=(f"{tmp_path}/work",)), advanced=Advanced(add_exec=True))
    assert added(policy, tmp_path, ["work/bin", "elsewhere/bin"]) == {"elsewhere/bin"}


def test_changes_are_seen(tmp_path: Path) -> None:
    """A link that is made later is found."""
    make(tmp_path, "links/plain", "apps/bin/tool")
    assert added(POLICY, tmp_path, ["links"]) == {"links"}
    (tmp_path / "links/tool").symlink_to(tmp_path / "apps/bin/tool")
    os.utime(tmp_path / "links", ns=(1, 1))
    assert added(POLICY, tmp_path, ["links"]) == {"links", "apps/bin"}


def test_find(tmp_path: Path) -> None:
    """A name is looked for in PATH, a path is meant from the working directory."""
    make(tmp_path, "bin/tool")
    env = {"PATH": f"/no/such:{tmp_path}/bin"}
    assert find("tool", env, "/") is None
    (tmp_path / "bin/tool").chmod(0o755)
    assert find("tool", env, "/") == f"{tmp_path}/bin/tool"
    assert find("./tool", env, f"{tmp_path}/bin") == f"{tmp_path}/bin/tool"


def test_loader(tmp_path: Path) -> None:
    """A dynamic program names its loader; a script and nonsense do not."""
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "nonsense").write_bytes(b"\x7fELF\x02" + bytes(100))
    assert loader(str(tmp_path / "script")) is None
    assert loader(str(tmp_path / "nonsense")) is None
    assert loader(str(tmp_path / "no such")) is None
    found = loader(os.path.realpath(sys.executable))
    if found is None:
        pytest.skip("this interpreter is linked statically")
    assert Path(found).exists()


def test_libraries() -> None:
    """The paths of the loader's list, without what is no file."""
    listing = (
        "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f00)\n"
        "\tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f01)\n"
    )
    assert libraries(listing) == ("/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2")
    assert with_libraries(Policy(), ["/no/lib.so", "/no/lib.so"]).filesystem.rox == ("/no/lib.so",)
