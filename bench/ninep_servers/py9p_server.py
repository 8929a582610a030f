"""The files of the benchmark in the server `py9p` that p9fs brings: python py9p_server.py SOCKET."""

import sys
import tempfile
from pathlib import Path

from files import BIG, K4, SMALL
from py9p import py9p
from py9p.__main__ import LocalFs

with tempfile.TemporaryDirectory() as root:
    Path(root, "d/e").mkdir(parents=True)
    for name, data in (("status", SMALL), ("k4", K4), ("big", BIG), ("d/e/small", SMALL)):
        Path(root, name).write_bytes(data)
    server = py9p.Server(listen=(sys.argv[1], 0o700))
    server.mount(LocalFs(root))
    print("ready", flush=True)
    server.serve()
