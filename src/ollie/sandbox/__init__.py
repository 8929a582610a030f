"""Running tools so that they reach what their policy allows, and end when they are told to.

`launcher.py` is the side that the server talks to; `launcher_main.py` is the small process that it starts, which forks
a reaper (`reaper.py`) for each run, which forks the restricted program (`child.py`). `landlock.py` and `seccomp.py`
compute what the kernel is asked to enforce, as values, and apply it in a few lines.

What this does not restrict, since the kernel offers no way: chmod, chown, utime and extended attributes of files that
belong to the user whom tools run as (`general.user` closes it), stat of any path, and the command lines of all
processes where /proc is granted.
"""
