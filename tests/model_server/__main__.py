"""`python -m tests.model_server --port 0 [--latency 1.0]`: prints its URL, serves until a signal."""

import argparse
import signal
import sys

from tests.model_server.scripts import Script
from tests.model_server.server import ModelServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model_server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--scores", type=float, nargs="+", default=[0.9], help="evaluators' scores, per case")
    parser.add_argument("--no-log", action="store_true", help="keep counts only, for benchmarks")
    options = parser.parse_args()
    script = Script(scores=tuple(options.scores), latency_s=options.latency, keep_log=not options.no_log)
    server = ModelServer(options.port, script).start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop())
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    try:
        server.wait()
    except KeyboardInterrupt:
        server.stop()


if __name__ == "__main__":
    main()
