"""`python -m tests.chaos.worker [fail point …]`: the worker as it is, with a saboteur at its boundaries."""

import sys

from tests.chaos.mutants import mutate
from tests.chaos.points import sabotage
from worker.__main__ import main
from worker.app import services

if __name__ == "__main__":
    mutate(sys.argv[1:])
    sabotage(sys.argv[1:], services.database)
    sys.exit(main())
