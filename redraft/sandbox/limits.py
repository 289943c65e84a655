"""Sets the limits of a child process."""

import contextlib
import resource


def limit(memory_bytes: int) -> None:
    """Limit the memory of this process, and prevent core files."""
    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, memory_bytes)):
        # Some systems do not have every limit: macOS has no RLIMIT_AS
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))
