"""What applies to a job whose request does not say otherwise. Defaults of the server are in `redraft/settings.py`."""

SCORE_THRESHOLD = 0.8
ITER_MAX = 3
PLATEAU_PATIENCE = 2
PLATEAU_DELTA = 0.02
