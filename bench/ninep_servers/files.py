"""What the servers serve: `status`, `k4`, `big`, `d/e/small`; a read of `block` waits for a write to `poke`."""

SMALL = b"." * 64
K4 = b"-" * 4096
BIG = bytes(range(256)) * (8 * 1024 * 1024 // 256)
