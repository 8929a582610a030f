"""What importing the backend costs the server."""

import subprocess
import sys


def test_the_engine_is_not_imported_into_the_server() -> None:
    """Its hundred megabytes are for a process of their own."""
    code = "import sys, ollie.backends.local; sys.exit('xllamacpp' in sys.modules or 'aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
