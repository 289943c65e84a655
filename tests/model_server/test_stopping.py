"""The server closes what it accepted: a leaked connection would fail whichever test runs next."""

import gc
import socket

from tests.model_server import ModelServer


def test_a_server_that_stops_closes_the_connections_that_it_has_just_accepted():
    for _ in range(20):
        with ModelServer() as server:
            clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        for client in clients:
            client.close()
    gc.collect()
