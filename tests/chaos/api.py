"""`python -m tests.chaos.api port=N [fail point …]`: the API as it is, with a saboteur at its boundaries."""

import sys

import uvicorn

from tests.chaos.mutants import mutate
from tests.chaos.points import sabotage


def main() -> None:
    mutate(sys.argv[1:])
    sabotage(sys.argv[1:])
    ports = [int(word.removeprefix("port=")) for word in sys.argv[1:] if word.startswith("port=")]
    uvicorn.run("api.app:create_app", factory=True, port=ports[0], access_log=False, timeout_graceful_shutdown=5)


if __name__ == "__main__":
    main()
