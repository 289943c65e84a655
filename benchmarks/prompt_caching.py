"""Measures the share of the input that a provider can cache: `python -m benchmarks.prompt_caching`.

One job with 20 sources runs for 4 iterations against the scripted model server, once with each wire format. Each prompt
is compared with the previous prompt of the same role. The characters before the first difference are counted.
"""

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from redraft.runtime import build_runtime
from redraft.settings import Settings
from redraft.storage.engine import schema
from tests.model_server import ModelServer
from tests.model_server.logbook import Entry
from tests.operations.driving import Driver
from tests.support.valkey import ValkeyServer

_SOURCES = [
    {
        "title": f"Timetable {n}",
        "content": " ".join(f"The ferry {n} leaves at {at}:{n:02} on day {at}." for at in range(24)),
    }
    for n in range(20)
]
_SCORES = [0.2, 0.3, 0.4, 0.5]


def main() -> None:
    valkey = ValkeyServer().start()
    try:
        show(valkey)
    finally:
        valkey.remove()


def show(valkey: ValkeyServer) -> None:
    print("| wire format | role | calls | characters of input | repeated | share |\n|---|---|---|---|---|---|")
    for dialect in ("openai", "anthropic"):
        with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
            entries = _sent(dialect, Path(folder), server, valkey)
        for role in ("generate", "evaluate"):
            prompts = [entry.prompt for entry in entries if entry.role == role]
            whole, cached = sum(map(len, prompts)), _cached(prompts)
            print(f"| {dialect} | {role} | {len(prompts)} | {whole:,} | {cached:,} | {cached / whole:.0%} |")


def _sent(dialect: str, folder: Path, server: ModelServer, valkey: ValkeyServer) -> list[Entry]:
    server.script(generate=[f"The answer in version {n}. " * 20 for n in range(4)], evaluate=_SCORES)
    settings = Settings(
        data_dir=folder,
        database_url=f"sqlite:///{folder / 'redraft.db'}",
        broker_url=valkey.url,
        openai_base_url=server.openai_url,
        anthropic_base_url=server.anthropic_url,
    )
    services = build_runtime(settings)
    try:
        schema.upgrade(services.database)
        models = {"model": f"{dialect}:writer", "evaluator_model": f"{dialect}:judge"}
        job = Driver(services).run_new(**models, sources=_SOURCES, iter_max=4, stop={"plateau_patience": 0})
        assert job.progress.iteration == len(_SCORES)
    finally:
        services.close()
    return server.requests()


def _cached(prompts: Sequence[str]) -> int:
    return sum(_common(earlier, later) for earlier, later in pairwise(prompts))


def _common(earlier: str, later: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(earlier, later, strict=False)) if a != b), len(earlier))


if __name__ == "__main__":
    main()
