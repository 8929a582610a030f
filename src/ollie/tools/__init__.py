"""The tools that ship: metadata in `<name>.yaml`, and modules for those that are written in Python.

Such a module has `main() -> int`: arguments as a JSON object on standard input, text on standard output, what went
wrong on standard error, and the exit status as result. It runs in the launcher's restricted child, or with `python -m`;
it imports the standard library only, and little of that.
"""
