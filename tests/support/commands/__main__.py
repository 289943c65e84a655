"""`redraft` as a terminal starts it: where pytest runs in the background of a script, a child inherits that Ctrl-C is
ignored.
"""

import signal

from redraft.cli.main import run

signal.signal(signal.SIGINT, signal.default_int_handler)
run()
