"""The secret file."""

from pathlib import Path

import pytest

from ollie.olliesrv.process.secret import SecretError, load, same


def test_made_once(tmp_path: Path) -> None:
    """A missing secret is made, for its owner only, and found again."""
    path = tmp_path / "cfg" / "secret"
    secret = load(path)
    assert len(secret) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["secret"]
    assert load(path) == secret


def test_the_file_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path it is the file named by the environment."""
    monkeypatch.delenv("OLLIE_SECRET_FILE", raising=False)
    monkeypatch.setenv("OLLIE_CFG_PATH", str(tmp_path))
    assert load() == (tmp_path / "secret").read_bytes().strip()


@pytest.mark.parametrize(
    ("content", "mode", "text"),
    [
        (b"x\n", 0o640, "can be read by others"),
        (b"x\n", 0o604, "can be read by others"),
        (b"", 0o600, "holds no secret"),
        (b"\n", 0o600, "holds no secret"),
        (b"x" * 5000, 0o600, "holds no secret"),
    ],
)
def test_refused(tmp_path: Path, content: bytes, mode: int, text: str) -> None:
    """A secret that others may know, or that is none, is refused with what to do."""
    path = tmp_path / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(SecretError, match=text):
        load(path)


def test_no_link_and_no_directory(tmp_path: Path) -> None:
    """A symbolic link or a directory is no secret."""
    (tmp_path / "there").write_bytes(b"x\n")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with pytest.raises(SecretError, match="cannot use"):
        load(tmp_path / "link")
    (tmp_path / "dir").mkdir()
    with pytest.raises(SecretError, match="regular file"):
        load(tmp_path / "dir")


def test_compared() -> None:
    """The secret is the same with and without a newline, and nothing else is."""
    assert same(b"abc", b"abc")
    assert same(b"abc", b"abc\n")
    assert not same(b"abc", b"")
    assert not same(b"abc", b"abcd")
