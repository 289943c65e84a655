"""What a model says is stored on both databases, whatever one of them cannot hold."""

from tests.model_server import ModelServer
from tests.operations.driving import Driver


def test_what_postgresql_cannot_store_is_cleaned_out_of_a_models_answer(driver: Driver, model_server: ModelServer):
    verdict = {"score": 0.9, "meets_criteria": False, "reasoning": "r\x00s", "suggestions": []}
    model_server.script(generate=["a\x00b"], evaluate=[verdict])
    job = driver.run_new()
    (iteration,) = driver.iterations(job.id)
    assert iteration.answer == "ab"
    assert iteration.evaluation is not None
    assert iteration.evaluation.evaluation_reasoning == "rs"
