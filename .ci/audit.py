#!/usr/bin/env python3
"""Look up every locked package in the OSV vulnerability database; docs/decisions/0010 says why pip-audit is not used.

One request serves all packages. A known vulnerability fails the check. If the service cannot be reached, the check
prints one line and passes, so that a machine without a network can build and test.
"""

import argparse
import json
import re
import sys
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

URL = "https://api.osv.dev"
PATIENCE_S = 8.0
# Vulnerabilities that do not affect Redraft, each with the reason.
IGNORED: Mapping[str, str] = {}

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


class Package(NamedTuple):
    name: str
    version: str


# This release is known to be vulnerable. A service that does not report it cannot be trusted.
CANARY = Package("jinja2", "2.4.1")


class NotAskedError(Exception):
    """The service gave no answer, or an unusable one."""


def locked(text: str) -> set[Package]:
    """Return the packages of a lock file."""
    return {Package(*found) for found in _PINNED.findall(text)}


def vulnerabilities(packages: Sequence[Package], url: str) -> dict[Package, list[str]]:
    """Return the ids of the known vulnerabilities by package, without packages that have none.

    Raises:
        NotAskedError: the service gave no usable answer.
    """
    queried = [CANARY, *packages]
    results = _ask(queried, url)
    found = {
        package: ids
        for package, result in zip(queried, results, strict=True)
        if (ids := [each["id"] for each in result.get("vulns", [])])
    }
    if not found.pop(CANARY, None):
        raise NotAskedError("it answers, but knows of nothing")
    return found


def _ask(packages: Sequence[Package], url: str) -> list[dict[str, Any]]:
    queries = [{"package": {"name": each.name, "ecosystem": "PyPI"}, "version": each.version} for each in packages]
    request = urllib.request.Request(  # noqa: S310 - the caller's URL: https, except in tests
        f"{url}/v1/querybatch", json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:  # noqa: S310
            results = json.load(response)["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotAskedError(getattr(error, "reason", None) or type(error).__name__) from error
    if len(results) != len(packages):
        raise NotAskedError("it answers something else")
    return results


def audit(packages: set[Package], url: str) -> int:
    """Look the packages up, print the result, and return the exit code."""
    try:
        found = vulnerabilities(sorted(packages), url)
    except NotAskedError as error:
        sys.stdout.write(f"Audit: not done, the vulnerability service did not answer ({error}).\n")
        return 0
    reported = [(package, each) for package, ids in found.items() for each in ids if each not in IGNORED]
    for package, each in reported:
        sys.stdout.write(f"{package.name} {package.version}: {each} (https://osv.dev/vulnerability/{each})\n")
    sys.stdout.write(f"Audit: {len(packages)} locked packages, {len(reported)} known vulnerabilities.\n")
    return 1 if reported else 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("locks", nargs="+", type=Path)
    parser.add_argument("--url", default=URL)
    chosen = parser.parse_args(arguments)
    packages = set[Package]().union(*(locked(path.read_text("utf-8")) for path in chosen.locks))
    codes: list[int] = []
    # A DNS look-up has no timeout, so it runs in a thread that can be abandoned.
    asking = threading.Thread(target=lambda: codes.append(audit(packages, chosen.url)), daemon=True)
    asking.start()
    asking.join(PATIENCE_S + 1)
    if asking.is_alive():
        sys.stdout.write("Audit: not done, the vulnerability service did not answer in time.\n")
        return 0
    return codes[0] if codes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
