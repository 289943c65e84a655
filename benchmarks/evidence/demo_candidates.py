"""`python -m benchmarks.evidence.demo_candidates` runs each candidate for the job of `redraft demo` with 50 seeds.

For a good candidate, the first answer is rejected in many runs, most runs end with an accepted answer, and each
accepted answer follows the task.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from redraft_client.client import Redraft

from benchmarks.evidence.__main__ import server
from redraft.cli.admin.demo import INVITATION

SEEDS = 50


def _check(text: str, kind: str, value: Any, **fields: Any) -> dict[str, Any]:
    return {
        "id": text.lower().replace(" ", "-")[:40],
        "kind": "check",
        "text": text,
        "check": {"kind": kind, "value": value, **fields},
    }


CANDIDATES: dict[str, dict[str, Any]] = {
    "invitation to a party (chosen)": INVITATION,
    "invitation to a party, template `short`": {**INVITATION, "generator_template": "short"},
    "invitation with a cake": {
        "instruct": "Write a short invitation: Ana is invited to a party on Friday. There is a cake.",
        "rubric": [
            _check("It is for Ana", "contains", "Ana"),
            _check("It says Friday", "contains", "Friday"),
            _check("It mentions a cake", "contains", "cake", ignore_case=True),
            _check("It has at most 40 words", "max_words", 40),
        ],
    },
    "sentence about a lighthouse": {
        "instruct": "Describe a lighthouse in one sentence of at most 20 words.",
        "rubric": [
            _check("It names a lighthouse", "contains", "lighthouse", ignore_case=True),
            _check("It has at most 20 words", "max_words", 20),
            _check("It is one line", "lines", 1),
        ],
    },
    "list of fruits": {
        "instruct": 'List exactly three fruits, each on a line of its own that begins with "- ".',
        "rubric": [
            _check("It has exactly three list items", "bullets", 3),
            _check("It has no other lines", "lines", 3),
            _check("It has at most 9 words", "max_words", 9),
        ],
    },
}
_LOOP = {key: INVITATION[key] for key in ("generator_template", "revision", "stop", "iter_max", "score_threshold")}


def main() -> None:
    """Run the candidates, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence.demo_candidates", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--output", type=Path, help="store the answers in this file, one JSON object a line")
    options = parser.parse_args()
    lines: list[str] = []
    print("| candidate | accepted | rejected first | rejected first, accepted later |\n|---|---|---|---|")
    with server() as redraft:
        for name, request in CANDIDATES.items():
            items = _run(redraft, {**_LOOP, "limits": {"deadline_s": 86_400}, **request}, options.seeds)
            lines += [json.dumps({"candidate": name, **item}, ensure_ascii=False) for item in items]
            accepted = [item for item in items if item["success"]]
            first = sum(item["best_iteration"] == 1 for item in accepted)
            later = len(accepted) - first
            print(f"| {name} | {len(accepted)} of {len(items)} | {len(items) - first} | {later} |", flush=True)
    if options.output:
        options.output.write_text("\n".join(lines) + "\n", "utf-8")


def _run(redraft: Redraft, request: dict[str, Any], seeds: int) -> list[dict[str, Any]]:
    sampling = {"temperature": 0.3, "max_output_tokens": 150}
    rows = [{**request, "custom_id": str(seed), "sampling": {**sampling, "seed": seed}} for seed in range(1, seeds + 1)]
    dataset = redraft.datasets.upload(rows, name="candidate.jsonl")
    run = redraft.runs.start(dataset_id=dataset.id, max_in_flight=4)
    redraft.runs.wait(run.id)
    return [json.loads(line) for line in redraft.runs.results(run.id).splitlines()]


if __name__ == "__main__":
    main()
