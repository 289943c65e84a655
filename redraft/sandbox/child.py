"""`python -I -m redraft.sandbox.child`: validates values against JSON Schemas for its parent, one at a time.

Standard input is a socket. A message is a length and a JSON text; a request begins with its CPU limit. When the parent
ends, the kernel closes the socket. The kernel kills a child at its CPU limit. So no child runs long after its parent.
"""

import json
import os
import signal
import socket
import struct
from io import BufferedRWPair
from typing import Any, cast

import jsonschema_rs

from redraft.sandbox.limits import limit

_REQUEST_HEAD = struct.Struct("!dQ")
_LENGTH = struct.Struct("!Q")
_MEMORY_MAX = 1 << 30
_MESSAGE_CHARS = 200
_REASON_CHARS = 300


def main() -> None:
    """Answer requests until the parent closes the socket."""
    # SIGINT ends the process without a traceback, as SIGTERM does
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    limit(_MEMORY_MAX)
    with socket.socket(fileno=0) as connection, connection.makefile("rwb") as channel:
        while asked := _read(channel):
            cpu_s, request = asked
            # The signal of this timer ends the process even within native code
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            try:
                outcome = _outcome(json.loads(request))
            except BaseException:  # noqa: BLE001 - a panic of native code is no Exception
                # SIGABRT tells the parent that the computation ended this process. Another exit means a failed start
                os.abort()
            signal.setitimer(signal.ITIMER_PROF, 0)
            _write(channel, outcome)


def _outcome(request: dict[str, Any]) -> dict[str, Any]:
    try:
        validator: Any = cast("Any", jsonschema_rs).validator_for(
            request["schema"],
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=request["pattern_bytes_max"]),
            **({"validate_formats": True} if request["with_formats"] else {}),
        )
        if not request["errors_max"]:
            return {"is_valid": validator.is_valid(request["value"])}
        return {"errors": _errors(validator, request["value"], request["errors_max"])}
    except (ValueError, RecursionError) as error:
        return {"unusable": str(error)[:_REASON_CHARS]}


def _errors(validator: Any, value: Any, most: int) -> list[Any]:
    found = zip(range(most), validator.iter_errors(value), strict=False)
    return [[error.message[:_MESSAGE_CHARS], list(error.instance_path)] for _, error in found]


def _read(channel: BufferedRWPair) -> tuple[float, bytes] | None:
    head = channel.read(_REQUEST_HEAD.size)
    if len(head) < _REQUEST_HEAD.size:
        return None
    cpu_s, length = _REQUEST_HEAD.unpack(head)
    return cpu_s, channel.read(length)


def _write(channel: BufferedRWPair, outcome: dict[str, Any]) -> None:
    data = json.dumps(outcome).encode()
    channel.write(_LENGTH.pack(len(data)) + data)
    channel.flush()


if __name__ == "__main__":
    main()
