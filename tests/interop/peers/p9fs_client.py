"""What the py9p that p9fs brings makes of a server: python p9fs_client.py SOCKET. Prints what it read, a line each."""

import socket
import sys

from py9p import py9p


def connect(version: py9p.Version) -> py9p.Client:
    """An attached client."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(sys.argv[1])
    return py9p.Client(connection, py9p.Credentials("glenda", "none"), ver=version)


def read(client: py9p.Client, path: str) -> bytes:
    """One read of a file."""
    client.open(path)
    data = client.read(8192)
    client.close()
    return data


try:
    connect(py9p.Version.v9P2000u)
except py9p.VersionError as error:
    print("for 9P2000.u it gets", error)
client = connect(py9p.Version.v9P2000)
print(*sorted(entry.decode() for entry in client.ls()))
print(read(client, "readme"))
(stat,) = client.stat("thing/a/note")
print(stat.name, oct(stat.mode), stat.length, stat.uid, stat.gid)
client.open("thing/a/note", py9p.OWRITE | py9p.OTRUNC)
print(client.write(b"some text\n"))
client.close()
print(read(client, "thing/a/note"), client.stat("thing/a/note")[0].length)
client.create("thing/b", py9p.DMDIR | 0o755, py9p.OREAD)
client.close()
print(read(client, "thing/idx"))
client.rm("thing/b")
print(read(client, "thing/idx"))
try:
    client.open("thing/a/nothing")
except py9p.RpcError as error:
    print(error)
