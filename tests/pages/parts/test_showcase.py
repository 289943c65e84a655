"""The installation that the pictures of the pages are taken of."""

from collections.abc import Callable

import pytest

from redraft.operations.bulk import runs
from redraft.operations.jobs import queries
from tests.pages.conftest import Visitor
from tests.support.showcase import showcase


@pytest.mark.long
def test_the_pictures_show_what_they_are_meant_to_show(visit: Callable[..., Visitor]):
    with showcase() as shown:
        visitor = visit(base_url=shown.api.url)
        scores = [each.evaluation.score for each in queries.list_iterations(shown.services, shown.job_id)]
        assert (len(scores), scores == sorted(scores), scores[-1]) == (3, True, 1.0)
        counts = runs.get_run(shown.services, shown.run_id).counts
        assert (counts.total, counts.failed, counts.invalid) == (41, 3, 1)
        both = f"baseline={shown.baseline_id}&run={shown.run_id}"
        for path in ("/", f"/jobs/{shown.job_id}/iterations", f"/runs/{shown.run_id}", f"/runs/compare?{both}"):
            visitor.go(path)
            assert visitor.status == 200
            visitor.check_accessible()
        visitor.check_rules()
        visitor.page.goto("about:blank")
