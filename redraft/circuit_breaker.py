"""Circuit breakers, one per model and process: consecutive transient failures of a model delay its next calls."""

import threading
from collections.abc import Sequence

from redraft.clock import Clock
from redraft.errors import ProviderError
from redraft.settings import Settings

_WAIT_MAX_S = 60.0


class CircuitBreaker:
    """The circuit breaker of one model in one process: it opens after consecutive transient failures."""

    def __init__(self, failures: int, first_wait_s: float) -> None:
        self._left = failures
        self._first_wait_s = first_wait_s
        self._wait_s = 0.0
        self._until = 0.0
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        return self._wait_s > 0

    def acquire(self, now: float) -> float:
        """Return the seconds to wait before a call; 0: call now. An open circuit admits one probe after each wait."""
        if not self.is_open:
            return 0.0
        if now < self._until:
            return self._until - now
        if self._is_probed:
            return self._wait_s
        self._is_probed = True
        return 0.0

    def end_probe(self) -> None:
        self._is_probed = False

    def fail(self, now: float, *, count: int = 1, retry_after_s: float = 0.0, is_probe: bool = False) -> None:
        """Count the failures of a step.

        If the circuit is open, only a failed probe doubles the wait, because all other calls began before it opened.
        """
        self._left -= count
        if self._left > 0:
            return
        wait_s = retry_after_s
        if not self.is_open or is_probe:
            self._wait_s = min(_WAIT_MAX_S, self._wait_s * 2 or self._first_wait_s)
            wait_s = max(wait_s, self._wait_s)
        self._until = max(self._until, now + wait_s)


class CircuitBreakers:
    """The circuit breakers of this process. A model whose last call succeeded has no circuit breaker."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._circuits: dict[str, CircuitBreaker] = {}

    def is_open(self, model: str) -> bool:
        circuit = self._circuits.get(model)
        return circuit is not None and circuit.is_open

    def acquire(self, model: str) -> tuple[float, bool]:
        """Return the seconds to wait, and whether the admitted call is a probe."""
        with self._lock:
            circuit = self._circuits.get(model)
            if circuit is None:
                return 0.0, False
            wait_s = circuit.acquire(self._clock.monotonic())
            return wait_s, circuit.is_open and not wait_s

    def record(self, model: str, errors: Sequence[ProviderError | None], *, is_probe: bool) -> None:
        """Record the outcomes of the calls of a step. Permanent failures do not count: the request caused them."""
        transient = [error for error in errors if error and error.retryable]
        with self._lock:
            # One call without an error shows that the model answers again
            if None in errors:
                self._circuits.pop(model, None)
            elif transient:
                new = CircuitBreaker(self._settings.circuit_failures, self._settings.circuit_wait_s)
                retry_after_s = max(error.retry_after_s or 0.0 for error in transient)
                circuit = self._circuits.setdefault(model, new)
                circuit.fail(
                    self._clock.monotonic(), count=len(transient), retry_after_s=retry_after_s, is_probe=is_probe
                )

    def end_probe(self, model: str) -> None:
        with self._lock:
            circuit = self._circuits.get(model)
            if circuit:
                circuit.end_probe()
