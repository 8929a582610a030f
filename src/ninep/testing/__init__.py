"""Tools to test servers, clients and trees with.

    line.py          a bare connection: messages out, messages in, as they are on the wire
    pair.py          a client and a server in one process, over a pair of sockets
    script.py        conversations as text files
    actions.py       what they may do to the sample
    direct.py        a session without a loop
    sample.py        a tree with a file of each kind, moved by hand
    plain.py         a tree of plain files, which clients make and remove
    conformance.py   what every 9P2000 server has to do, whatever its tree; rule.py is what a rule is made of,
                     suspended.py what is asked about requests that wait
    files.py         what a mounted tree has to do as files

`python -m ninep.testing` runs the last two and scripts against a server at an address, and serves the two trees.

There is no helper to sleep: `Server.until` waits for the statistics to fulfil a condition.
"""

from ninep.testing.actions import sample_actions
from ninep.testing.conformance import conformance
from ninep.testing.direct import DirectDriver
from ninep.testing.files import Named, files
from ninep.testing.line import Line
from ninep.testing.pair import connected, line_to
from ninep.testing.plain import PlainServer
from ninep.testing.rule import Check
from ninep.testing.sample import sample_server, sample_tree
from ninep.testing.script import ScriptError, StepError, run_script
from ninep.testing.things import Sample, Thing

__all__ = [
    "Check",
    "DirectDriver",
    "Line",
    "Named",
    "PlainServer",
    "Sample",
    "ScriptError",
    "StepError",
    "Thing",
    "conformance",
    "connected",
    "files",
    "line_to",
    "run_script",
    "sample_actions",
    "sample_server",
    "sample_tree",
]
