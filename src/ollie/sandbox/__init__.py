"""Running tools so that they reach what their policy allows, and end when they are told to.

`launcher.py` is the side that the server talks to; `launcher_main.py` is the small process that it starts, which forks
reapers (`reaper.py`). Each takes one run after another and forks its program (`child.py`); `seats.py` is the server's
view of them. `landlock.py` and `seccomp.py` compute, as values, what the kernel is asked to enforce; `rulesets.py` and
`enforce.py` ask.

What this does not restrict, since the kernel offers no way: chmod, chown, utime and extended attributes of files that
belong to the user whom tools run as (`general.user` closes it), stat of any path, and the command lines of all
processes where /proc is granted.
"""
