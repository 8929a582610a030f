"""olliesrv: sessions and agents, behind a 9P tree.

`server` holds what is served, `ns` is its tree, `identity` and `access` say who may do what, `daemon` starts and
ends a server.
"""
