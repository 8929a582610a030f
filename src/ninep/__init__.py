"""9P2000: messages, protocol session, tree of files, server and client."""
