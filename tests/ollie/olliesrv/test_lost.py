"""Errors that no reply could carry."""

from ollie.olliesrv.lost import Lost, LostErrors


def test_each_reader_has_its_own() -> None:
    """A reader sees its own errors."""
    lost = LostErrors()
    glendas, robs = Lost(1.0, "session/new", "session exists: myproj"), Lost(2.0, "ctl", "unknown command: x")
    lost.add("glenda", glendas)
    lost.add("rob", robs)
    assert [lost.of(reader) for reader in ("glenda", "rob", "ken")] == [(glendas,), (robs,), ()]


def test_the_last_ones_are_kept() -> None:
    """64 errors of a reader are kept, and 1024 readers."""
    lost = LostErrors()
    for n in range(100):
        lost.add("glenda", Lost(n, "x", "error"))
    assert [error.at_s for error in lost.of("glenda")] == list(range(36, 100))
    for n in range(1024):
        lost.add(f"reader {n}", Lost(n, "x", "error"))
    assert not lost.of("glenda")
    assert lost.of("reader 0")
