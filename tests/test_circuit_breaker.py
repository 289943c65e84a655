"""When a circuit opens, and how long it stays open."""

from redraft.circuit_breaker import CircuitBreaker


def test_only_a_probe_that_fails_doubles_the_wait():
    circuit = CircuitBreaker(failures=2, first_wait_s=10.0)
    circuit.fail(0.0)
    assert circuit.acquire(0.0) == 0.0
    circuit.fail(0.0)
    # These calls began before the circuit opened
    circuit.fail(1.0)
    circuit.fail(2.0)
    assert circuit.acquire(3.0) == 7.0
    assert circuit.acquire(10.0) == 0.0
    assert circuit.acquire(10.0) == 10.0, "one probe at a time"
    circuit.fail(11.0, is_probe=True)
    assert circuit.acquire(11.0) == 20.0
