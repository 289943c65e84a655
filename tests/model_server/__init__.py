"""A scripted model server: Chat Completions and Messages over real sockets, for every test and benchmark.

In a test: `with ModelServer() as server: server.script(generate=["one"], evaluate=[0.9])`.
From another process: `python -m tests.model_server --port 0`, then `PUT /_script` and `GET /_log`.
"""

from tests.model_server.batch_script import BatchScript
from tests.model_server.requests import Asked, Dialect, Role
from tests.model_server.scripts import Reply, Rule, Script, as_reply
from tests.model_server.server import ModelServer

__all__ = ["Asked", "BatchScript", "Dialect", "ModelServer", "Reply", "Role", "Rule", "Script", "as_reply"]
