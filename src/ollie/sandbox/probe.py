"""What this kernel gives a sandbox, and what of a policy it cannot enforce, in words."""

import os
from dataclasses import dataclass
from pathlib import Path

from ollie.protocol.policy import Policy
from ollie.sandbox import landlock, seccomp


@dataclass(frozen=True, slots=True)
class Probe:
    """Landlock's ABI (0 for none), and whether seccomp works, user namespaces may be made, and this is root."""

    abi: int
    seccomp: bool
    userns: bool
    root: bool


def probe() -> Probe:
    """Ask the kernel. Makes nothing and forks nothing."""
    return Probe(landlock.abi(), seccomp.available(), _user_namespaces(), os.geteuid() == 0)


def missing(policy: Policy, kernel: Probe) -> tuple[str, ...]:
    """What the kernel cannot enforce of a policy: a sentence each, with what it would take. Empty when all holds."""
    lacks = [sentence for abi, sentence in _LANDLOCK if kernel.abi < abi]
    if kernel.abi == 0:
        lacks = [_NO_LANDLOCK]
    if not kernel.seccomp:
        lacks.append(_NO_SECCOMP if policy.network.enabled else f"the network is open, and {_NO_SECCOMP}")
    if policy.general.user and not kernel.root:
        lacks.append(f"tools do not run as {policy.general.user}: only a server that is root can change the user")
    return tuple(lacks)


def report(kernel: Probe, policy: Policy) -> tuple[str, ...]:
    """Lines for the start-up log: what holds here, and what does not."""
    lines = [
        f"sandbox: landlock abi {kernel.abi}, seccomp {_yes(kernel.seccomp)}, user namespaces {_yes(kernel.userns)}"
    ]
    lines += [f"sandbox: {sentence}" for sentence in missing(policy, kernel)]
    if kernel.root and not policy.general.user:
        lines.append(
            "sandbox: tools run as root without capabilities: they can change mode, times and attributes of root's "
            "files anywhere, and the limit of processes is only watched; general.user in sandbox.yaml closes this"
        )
    return tuple(lines)


_NO_LANDLOCK = (
    "files, signals and other processes are not confined: it takes Landlock (linux 5.13, lsm=landlock at boot)"
)
_NO_SECCOMP = "system calls are not filtered: it takes seccomp on x86_64 or aarch64"
# By the first ABI that has it.
_LANDLOCK = (
    (2, "links and renames between directories fail everywhere: landlock abi 2 (linux 5.19) allows them"),
    (3, "truncating files is not confined: it takes landlock abi 3 (linux 6.2)"),
    (5, "ioctl on devices is not confined: it takes landlock abi 5 (linux 6.10)"),
    (6, "signals and abstract sockets are not confined: it takes landlock abi 6 (linux 6.12)"),
)


def _yes(value: bool) -> str:  # noqa: FBT001  the value is the argument
    return "yes" if value else "no"


def _user_namespaces() -> bool:
    """Whether an unprivileged process may make one, by the switches of the kernel and of distributions."""
    # Whether a value above 0 allows them.
    switches = {
        "/proc/sys/user/max_user_namespaces": True,
        "/proc/sys/kernel/unprivileged_userns_clone": True,
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": False,
    }
    for path, allows in switches.items():
        try:
            if (int(Path(path).read_text(encoding="ascii")) > 0) is not allows:
                return False
        except OSError:  # no such switch
            continue
    return Path("/proc/self/ns/user").exists()
