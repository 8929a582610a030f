"""Errors that no reply could carry."""

from datetime import UTC, datetime, timedelta

from ollie.olliesrv.lost import LostErrors

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_each_reader_has_its_own() -> None:
    """A reader sees its own errors, each on one line with its time and path."""
    lost = LostErrors()
    lost.add("glenda", "session/new", "session exists:\nmyproj", NOON)
    lost.add("rob", "session/a/ctl", "unknown command: x", NOON + timedelta(seconds=1))
    assert lost.text("glenda") == b"2026-01-02T12:00:00Z\tsession/new\tsession exists: myproj\n"
    assert lost.text("rob") == b"2026-01-02T12:00:01Z\tsession/a/ctl\tunknown command: x\n"
    assert lost.text("ken") == b""


def test_the_last_ones_are_kept() -> None:
    """64 errors of a reader are kept, and 1024 readers."""
    lost = LostErrors()
    for n in range(100):
        lost.add("glenda", "x", f"error {n}", NOON)
    lines = lost.text("glenda").splitlines()
    assert len(lines) == 64
    assert lines[-1].endswith(b"error 99")
    for n in range(1024):
        lost.add(f"reader {n}", "x", "error", NOON)
    assert lost.text("glenda") == b""
    assert lost.text("reader 0")
