"""The kinds of file that a tree is made of.

One class for each kind; a tree's tables hold their instances. In every callback the first two arguments are the object
of the nearest `Each` directory (the tree's own at the top) and the peer. A callback may raise NinepError; it may be
cancelled wherever it waits (Tflush, Tclunk, a lost connection).
"""

from ninep.files.control import Command, Control, done
from ninep.files.inbox import Sink
from ninep.files.log import AppendLog, Log
from ninep.files.queue import Head, Queue
from ninep.files.request import Request
from ninep.files.text import StoredText, Text, TextBuffer
from ninep.files.watch import Level, Watch, Watcher
from ninep.tree import Dir, Each, Entry, Peer, Role, Tree

__all__ = [
    "AppendLog",
    "Command",
    "Control",
    "Dir",
    "Each",
    "Entry",
    "Head",
    "Level",
    "Log",
    "Peer",
    "Queue",
    "Request",
    "Role",
    "Sink",
    "StoredText",
    "Text",
    "TextBuffer",
    "Tree",
    "Watch",
    "Watcher",
    "done",
]
