"""Stores in files of their own."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
