import socket

import pytest

from redraft.embedded.listeners import listen, url_of
from redraft.errors import Conflict, Invalid


def test_any_free_port_is_told():
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener, "127.0.0.1") == f"http://127.0.0.1:{port}"
        assert url_of(listener, "0.0.0.0") == f"http://127.0.0.1:{port}"
        assert url_of(listener, "::") == f"http://[::1]:{port}"


def test_a_port_in_use_is_refused_with_one_that_is_free():
    with listen("127.0.0.1", 0) as listener, pytest.raises(Conflict, match=r"is in use. Port [0-9]+ is free"):
        listen("127.0.0.1", listener.getsockname()[1])


def test_the_next_port_in_use_is_not_named():
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        try:
            second = listen("127.0.0.1", port + 1)
        except Conflict:
            second = socket.socket()
        with second, pytest.raises(Conflict) as refusal:
            listen("127.0.0.1", port)
    assert f"Port {port + 1} is free" not in str(refusal.value)


def test_a_host_without_an_address_is_refused():
    with pytest.raises(Invalid, match="is no address"):
        listen("no host", 0)
