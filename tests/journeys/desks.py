"""An application developer at the API."""

from typing import Any

import httpx2

from tests.support.waiting import patient

TASK = {"instruct": "What is the capital of France?", "eval_crit": "Names the city and one fact about it."}


class Desk:
    """An application developer's view: submit, wait, look."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client

    def submit(self, **fields: Any) -> dict[str, Any]:
        response = self.client.post("/v1/generate-answer", json={**TASK, **fields})
        # 201 if it has ended by the time of the answer
        assert response.status_code in {201, 202}, response.text
        return response.json()

    def job(self, job_id: str) -> dict[str, Any]:
        return self.client.get(f"/v1/jobs/{job_id}").json()

    def finished(self, job_id: str) -> dict[str, Any]:
        """The job when it has ended, by long poll."""
        etag = ""
        for _ in range(60):
            headers = {"Prefer": "wait=30", "If-None-Match": etag}
            response = self.client.get(f"/v1/jobs/{job_id}", headers=headers, timeout=patient(40))
            if response.status_code == 200 and response.json()["finished_at"]:
                return response.json()
            etag = response.headers.get("etag", etag)
        raise AssertionError(f"job {job_id} did not end")

    def run(self, **fields: Any) -> dict[str, Any]:
        return self.finished(self.submit(**fields)["id"])

    def iterations(self, job_id: str) -> list[dict[str, Any]]:
        return self.client.get(f"/v1/jobs/{job_id}/iterations").json()["data"]

    def calls(self, job_id: str) -> list[dict[str, Any]]:
        return self.client.get(f"/v1/jobs/{job_id}/calls").json()["data"]

    def events(self, job_id: str) -> list[dict[str, Any]]:
        response = self.client.get(f"/v1/jobs/{job_id}/events", headers={"Accept": "application/json"})
        return response.json()["data"]
