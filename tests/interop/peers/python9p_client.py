"""What python-9p makes of a server: python python9p_client.py SOCKET. Its codec is plan9port's, in C.

One thread is blocked in a read while others go on; a blocked read is flushed; another is woken by a write.
"""

import sys
import threading

from py9p import DMDIR, Client, Rflush, Tflush, Tread
from py9p.io import write_message

OWRITE = 1
BLOCKED = 77

with Client.connect_unix(sys.argv[1]) as client:
    print(client.negotiate().version)
    client.attach(0, uname="glenda")
    print(client.walk(0, 1, "thing/a/change"))
    client.open(1)
    client.walk(0, 2, "thing/a/level")
    client.open(2)

    answers: list[bytes] = []
    blocked = threading.Thread(target=lambda: answers.append(client.read(1)))
    blocked.start()
    client.walk(0, 3, "readme")
    client.open(3)
    print(client.read(3), client.stat(3).name)
    client.walk(0, 4, "thing/a/change")
    client.open(4, OWRITE)
    client.write(4, b"changed\n")
    client.clunk(4)
    blocked.join()
    print(answers)

    write_message(client.transport, Tread(tag=BLOCKED, fid=2, offset=0, count=10))
    print(type(client.rpc(Tflush(oldtag=BLOCKED), Rflush)).__name__)
    client.clunk(2)
    client.walk(0, 5, "thing")
    client.create(5, "b", int(DMDIR) | 0o755)
    client.clunk(5)
    client.walk(0, 5, "thing/b")
    client.remove(5)
    print("removed")
