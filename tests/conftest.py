"""What holds for all tests.

Properties have no deadline: no test asserts a time, and the machine may be busy. SIGINT and SIGQUIT have their default
meaning: a shell without job control has what it starts in the background ignore them, and so would all programs that
tests start and interrupt.
"""

import signal
import sys
from pathlib import Path

from hypothesis import settings

sys.path.append(str(Path(__file__).parent))  # for `threaded`, beside this file

settings.register_profile("ollie", deadline=None)
settings.load_profile("ollie")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
