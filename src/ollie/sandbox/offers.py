"""The Landlock rulesets that processes of programs made and that later ones are offered, as the server keeps them.

When a file system is unmounted the kernel takes its files out of every ruleset, and the same one, mounted again, has
files of the same identity. So nothing is offered across a change of the mounts, which the kernel tells to whoever polls
its list of them, see proc(5).
"""

import os
import select

from ollie.sandbox.requests import Made, Plan, Ruleset

_MOST = 16  # each holds a descriptor, and the inodes of its paths in the kernel's memory


class Offers:
    """What was made last for each ruleset and working directory, which decides together with it what links lead to."""

    def __init__(self) -> None:
        self._made: dict[tuple[Ruleset, str], Made] = {}
        self._changes = select.poll()
        try:
            self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # no descriptor to spare: every program makes its own ruleset
            self._mounts = -1
        else:
            self._changes.register(self._mounts, select.POLLPRI)

    def add_to(self, plan: Plan, descriptors: list[int]) -> tuple[Plan, list[int]]:
        """A plan and its descriptors, with what there is to offer."""
        if self._made and self._changes.poll(0):
            self._drop_all()
        made = self._made.get((plan.inner, plan.cwd)) if plan.inner else None
        return (plan._replace(made=made.identities), [*descriptors, made.descriptor]) if made else (plan, descriptors)

    def keep(self, plan: Plan, made: Made) -> None:
        """Take over what the process of a plan has made."""
        if self._mounts < 0 or plan.inner is None:
            os.close(made.descriptor)
            return
        key = (plan.inner, plan.cwd)
        self._drop(key)
        if len(self._made) == _MOST:
            self._drop(next(iter(self._made)))
        self._made[key] = made

    def close(self) -> None:
        """Give up all of it, and what comes later."""
        if self._mounts >= 0:
            os.close(self._mounts)
            self._mounts = -1
            self._drop_all()

    def _drop_all(self) -> None:
        for key in tuple(self._made):
            self._drop(key)

    def _drop(self, key: tuple[Ruleset, str]) -> None:
        if made := self._made.pop(key, None):
            os.close(made.descriptor)
