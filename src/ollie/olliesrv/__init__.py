"""olliesrv: sessions and agents, behind a 9P tree.

From above: `serve` runs a server; `ns` is its tree; `door` says who a client is and what it may do; `server` holds what
is served; `sessions` are the sessions and their agents; `turns` what runs an agent's turns; `settings` what it works
with; `toolserver` asks the tool servers; `process` has to do with the server's own process and its neighbours.
"""
