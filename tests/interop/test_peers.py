"""Clients from PyPI against the sample."""

from collections.abc import Awaitable, Callable

from ninep.testing import Sample

Run = Callable[[str, str, str], Awaitable[str]]


async def test_p9fs(run: Run, address: str) -> None:
    """It is told which dialect is spoken, lists, reads, truncates, writes, makes and removes.

    Its own `P9FileSystem` is not tried: for `/thing/a` it sends a Twalk of `"/" "thing" "a"`, whose first name is none
    (intro(5): a slash is in no name), and what it reads ends at the length that stat says, 0 for files that are made as
    they are read. Of paths without the leading slash it lists directories.
    """
    output = await run("p9fs", "p9fs_client.py", address)
    assert output.splitlines() == [
        "for 9P2000.u it gets version mismatch: b'9P2000'",
        "new readme thing",
        "b'a sample of every kind\\n'",
        "b'note' 0o660 0 b'owner' b'agent'",
        "10",
        "b'some text\\n' 10",
        "b'a\\nb\\n'",
        "b'a\\n'",
        "incomplete walk (2 out of 3)",
    ]


async def test_python_9p(run: Run, address: str, sample: Sample) -> None:
    """Requests go on beside a blocked read, which a write answers; a flushed read is never answered."""
    output = await run("python-9p", "python9p_client.py", address)
    lines = output.splitlines()
    assert lines[0] == "9P2000"
    assert lines[2:] == [
        "b'a sample of every kind\\n' readme",
        "[b'changed\\n']",
        "Rflush",
        "removed",
    ]
    assert sample.things["a"].changes.watchers == 0
