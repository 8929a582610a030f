"""toolsrv: runs tools for agents, in a sandbox, behind a 9P tree.

`lifecycle` starts and ends a server, `ns` is its tree, `registry` knows which tools an agent has loaded, `execute`
turns a request into a run and a run into a result, `runs` keeps what runs.
"""
