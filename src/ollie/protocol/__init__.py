"""What toolsrv and olliesrv both know: payloads, results, tools and their discovery, policies, directories."""
