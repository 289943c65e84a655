"""The fields of request bodies and the filters of lists, from the API's description. `make docs` generates this file.

The server fills in the defaults, and validates all values.
"""

from __future__ import annotations

from typing import Any, Literal, Required, TypedDict


class AttachmentFields(TypedDict, total=False):
    """An image or a PDF for the generator and the evaluator. This model describes the fields, but validates
    nothing.
    """
    media_type: Required[Literal['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf']]
    data: str
    """Required in a request: the file in base64, with padding and without line breaks."""
    title: str | None
    """A name for the models and for people."""
    size: int
    """The size of the file in bytes."""
    digest: str
    """The SHA-256 of the file, in hexadecimal digits."""
    pages: int | None
    """The maximum number of pages of a PDF."""
    url: str
    """The path of the file."""


class CitesAllSources(TypedDict, total=False):
    """Each source of the request is cited by a citation marker such as [Source 2]."""
    kind: Required[Literal['cites_all_sources']]


class Contains(TypedDict, total=False):
    ignore_case: bool
    """Ignore the case of letters."""
    kind: Required[Literal['contains']]
    value: Required[str]


class ContainsAll(TypedDict, total=False):
    ignore_case: bool
    """Ignore the case of letters."""
    kind: Required[Literal['contains_all']]
    value: Required[list[str]]


class ContainsAny(TypedDict, total=False):
    ignore_case: bool
    """Ignore the case of letters."""
    kind: Required[Literal['contains_any']]
    value: Required[list[str]]


class ContinueJob(TypedDict, total=False):
    """More iterations for a job that has ended. Fields that are null keep their earlier value."""
    iter_max: int | None
    """Maximum number of further iterations; null: the iter_max of the job."""
    score_threshold: float | None
    model: str | list[str] | None
    evaluator_model: str | None
    guidance: str | None
    """A person's own feedback for the next prompt."""
    sources: list[Source] | None
    """Replace the earlier sources; null: unchanged."""
    evaluator_sampling: Sampling | None
    """Omitted fields keep their earlier value; a field with null is not sent."""
    limits: Limits | None


class CreateRun(TypedDict, total=False):
    """Runs the rows of a dataset as jobs, a limited number at a time and with a lower priority than single jobs."""
    dataset_id: Required[str]
    name: str | None
    """null or empty: the dataset's name."""
    defaults: JobFields
    """Fields of a job, and vars, for rows without them."""
    overrides: JobFields
    """Fields of a job, and vars, that replace the values of the rows."""
    repeat: int
    """The number of jobs per row."""
    max_in_flight: int
    """The maximum number of jobs at once. Jobs that wait for a batch do not count."""
    max_cost_usd: float | None
    """For the whole run. null: no limit."""
    delivery: Literal['live', 'batch', 'auto']
    """batch: by the batch endpoints of the providers, at half the price; each round may take up to 24 hours.
    auto: batch if every model has such an endpoint and the run has at least REDRAFT_BATCH_MIN_ROWS items.
    """
    webhook: RunWebhook | None
    """Receives the events of the run. `webhook` in `defaults` receives the events of each job."""


class CreateSchedule(TypedDict, total=False):
    """Starts a run of a dataset at regular times."""
    cron: Required[str]
    """Minute, hour, day of the month, month, day of the week (0 or sun is Sunday), in UTC: `0 6 * * mon-fri`."""
    run: Required[CreateRun]
    """The request of each run, as for `POST /v1/runs`."""
    gates: RunGates
    """If a gate fails, the webhook gets `run.gate_failed`."""


class Criterion(TypedDict, total=False):
    """One criterion of a rubric: a statement that a model evaluates, or a check that code runs."""
    id: Required[str]
    text: str
    """A statement that is true of a good answer; only a check may leave it out."""
    kind: Literal['binary', 'scale', 'check']
    weight: float
    """Negative: the criterion is a fault and lowers the score."""
    required: bool
    """An answer is accepted only if it meets the criterion, regardless of its score."""
    hidden: bool
    """Never shown to the generator."""
    anchors: dict[str, str] | None
    """For a scale: the meaning of its levels, from 0 to 5."""
    check: JsonSchema | IsJson | InLanguage | IsUrlFree | CitesAllSources | NumericBetween | OutsideCheck | SizeLimit | LineCount | MaxGrade | Contains | ContainsAll | ContainsAny | NotContains | StartsOrEndsWith | Equals | Search | None
    """For a check: the condition that code tests."""


class Equals(TypedDict, total=False):
    ignore_case: bool
    """Ignore the case of letters."""
    kind: Required[Literal['equals']]
    value: Required[str]


class EvaluateAnswer(TypedDict, total=False):
    """A job that evaluates a given answer once."""
    instruct: Required[str]
    """The question or task."""
    resp_format: str
    """The wanted form of the answer, in words."""
    eval_crit: str | None
    """The criteria, in words."""
    score_threshold: float
    """Minimum score of an accepted answer."""
    evaluator_model: str | None
    """provider:name; null: the configured one."""
    profile: str
    """A named way to evaluate; GET /v1/profiles."""
    rubric: list[Criterion] | None
    """The criteria, line by line; with profile 'criteria'."""
    evaluation: EvaluationOptions
    sources: list[Source]
    """Texts that can support the answer."""
    grounding: GroundingOptions | None
    """How the answer uses its sources; if there are sources, the defaults apply."""
    attachments: list[AttachmentFields]
    """Images and PDFs for the generator and the evaluator."""
    conversation: list[list[str]]
    """Earlier [user, assistant] turns."""
    reference: str | None
    """A known good answer; only the evaluator sees it."""
    limits: Limits
    sampling: Sampling
    """Sampling parameters of the generator."""
    evaluator_sampling: Sampling
    """Sampling parameters of all evaluators. A retry has twice the output limit."""
    cache: Literal['off', 'use']
    """use: take the reply of an identical earlier call."""
    webhook: Webhook | None
    """Where the job's events are sent; docs/webhooks.md."""
    metadata: dict[str, str]
    vars: dict[str, Any]
    """Values for {{ name }} in the task, its form and criteria, and the generator's prompt."""
    answer: Required[str]


class EvaluationOptions(TypedDict, total=False):
    """The number of evaluator calls, their models, and when to skip them."""
    samples: int
    """Number of calls per evaluator; the mean score counts."""
    panel: list[str]
    """Several evaluators instead of evaluator_model; the median score counts."""
    audit: str | None
    """Independent evaluator: scores the first and the returned answer after the loop; reported only."""
    tuning: str | None
    """A tuning's id; none; null: the adopted one."""
    skip: Literal['never', 'when_checks_fail', 'auto']
    """When to skip the evaluation. never: do not skip; when_checks_fail: if the answer fails a required check;
    auto: if the task is small talk or arithmetic and has no resp_format, rubric, answer_schema, sources,
    attachments or reference.
    """
    when: Literal['before_done', 'after_answer', 'overlap']
    """after_answer: the job ends with its first answer at once, which is evaluated afterwards; overlap: the next
    answer is generated while an answer is evaluated.
    """
    sample: float
    """Share of the jobs for which evaluators are called; the id of the job decides."""
    min_answer_chars: int
    """Evaluators are not called for shorter answers."""


class GenerateAnswer(TypedDict, total=False):
    """A job that writes an answer: generate, evaluate, revise until it is accepted."""
    instruct: Required[str]
    """The question or task."""
    resp_format: str
    """The wanted form of the answer, in words."""
    eval_crit: str | None
    """The criteria, in words."""
    score_threshold: float
    """Minimum score of an accepted answer."""
    evaluator_model: str | None
    """provider:name; null: the configured one."""
    profile: str
    """A named way to evaluate; GET /v1/profiles."""
    rubric: list[Criterion] | None
    """The criteria, line by line; with profile 'criteria'."""
    evaluation: EvaluationOptions
    sources: list[Source]
    """Texts that can support the answer."""
    grounding: GroundingOptions | None
    """How the answer uses its sources; if there are sources, the defaults apply."""
    attachments: list[AttachmentFields]
    """Images and PDFs for the generator and the evaluator."""
    conversation: list[list[str]]
    """Earlier [user, assistant] turns."""
    reference: str | None
    """A known good answer; only the evaluator sees it."""
    limits: Limits
    sampling: Sampling
    """Sampling parameters of the generator."""
    evaluator_sampling: Sampling
    """Sampling parameters of all evaluators. A retry has twice the output limit."""
    cache: Literal['off', 'use']
    """use: take the reply of an identical earlier call."""
    webhook: Webhook | None
    """Where the job's events are sent; docs/webhooks.md."""
    metadata: dict[str, str]
    vars: dict[str, Any]
    """Values for {{ name }} in the task, its form and criteria, and the generator's prompt."""
    iter_max: int
    """Maximum number of iterations."""
    model: str | list[str] | None
    """provider:name, or a list: iteration k uses entry k, or the last entry."""
    system_instructions: str | None
    """Added to the generator's system prompt."""
    generator_template: str | None
    """NAME or NAME@VERSION. Default: `standard`; of the bundled model: `short`."""
    candidates: int
    """Number of parallel answers per iteration; the loop continues with the best one."""
    revision: Revision
    stop: Stop
    answer_schema: dict[str, Any] | Literal['answer_with_sources', 'comparison'] | None
    """A JSON Schema, or the name of one; the answer is JSON that fits it."""
    stream: bool
    """Publish the answer's text while it is written."""


class GetCalibration(TypedDict, total=False):
    evaluator_model: str | None
    """As provider:name."""
    profile: str | None
    profile_version: str | None
    criterion: str | None
    """The id of a criterion; by default all criteria."""
    precision: float
    """The minimum precision: of the answers at or above the proposed threshold, people must have passed this
    share.
    """
    created_after: str | None
    """Ratings at this time or later."""
    created_before: str | None
    """Ratings before this time."""


class GroundingOptions(TypedDict, total=False):
    """How an answer must use its sources. If there are no sources, the answer has to say so and ask for them."""
    mode: Literal['simple', 'grounded', 'analytical', 'conversational']
    output_format: Literal['plain', 'markdown', 'json', 'bullets']
    """json: an object with 'answer' and 'sources'."""
    include_citations: bool
    citation_style: Literal['inline', 'footnote', 'endnote']
    require_grounding: bool
    """Reject answers that cite a missing source or state something that no source says."""
    template: Literal['grounded_qa', 'analytical_synthesis', 'comparison', 'summarization'] | None
    annotate_unverified: bool
    """List unverified statements beneath the final answer."""


class InLanguage(TypedDict, total=False):
    kind: Required[Literal['language']]
    value: Required[str]
    """ISO 639-1, such as en."""


class IsJson(TypedDict, total=False):
    """The whole answer is one JSON value, with or without a code fence."""
    kind: Required[Literal['is_json']]


class IsUrlFree(TypedDict, total=False):
    kind: Required[Literal['is_url_free']]


class JobFields(TypedDict, total=False):
    """Any fields of a job. This model describes the fields, but validates nothing."""
    instruct: str
    """The question or task."""
    resp_format: str
    """The wanted form of the answer, in words."""
    eval_crit: str | None
    """The criteria, in words."""
    score_threshold: float
    """Minimum score of an accepted answer."""
    evaluator_model: str | None
    """provider:name; null: the configured one."""
    profile: str
    """A named way to evaluate; GET /v1/profiles."""
    rubric: list[Criterion] | None
    """The criteria, line by line; with profile 'criteria'."""
    evaluation: EvaluationOptions
    sources: list[Source]
    """Texts that can support the answer."""
    grounding: GroundingOptions | None
    """How the answer uses its sources; if there are sources, the defaults apply."""
    attachments: list[AttachmentFields]
    """Images and PDFs for the generator and the evaluator."""
    conversation: list[list[str]]
    """Earlier [user, assistant] turns."""
    reference: str | None
    """A known good answer; only the evaluator sees it."""
    limits: Limits
    sampling: Sampling
    """Sampling parameters of the generator."""
    evaluator_sampling: Sampling
    """Sampling parameters of all evaluators. A retry has twice the output limit."""
    cache: Literal['off', 'use']
    """use: take the reply of an identical earlier call."""
    webhook: Webhook | None
    """Where the job's events are sent; docs/webhooks.md."""
    metadata: dict[str, str]
    vars: dict[str, Any]
    """Values for {{ name }} in the task, its form and criteria, and the generator's prompt."""
    iter_max: int
    """Maximum number of iterations."""
    model: str | list[str] | None
    """provider:name, or a list: iteration k uses entry k, or the last entry."""
    system_instructions: str | None
    """Added to the generator's system prompt."""
    generator_template: str | None
    """NAME or NAME@VERSION. Default: `standard`; of the bundled model: `short`."""
    candidates: int
    """Number of parallel answers per iteration; the loop continues with the best one."""
    revision: Revision
    stop: Stop
    answer_schema: dict[str, Any] | Literal['answer_with_sources', 'comparison'] | None
    """A JSON Schema, or the name of one; the answer is JSON that fits it."""
    stream: bool
    """Publish the answer's text while it is written."""


class JsonSchema(TypedDict, total=False):
    kind: Required[Literal['json_schema']]
    value: Required[dict[str, Any]]
    """Any JSON Schema. References to other documents are not supported."""


class Limits(TypedDict, total=False):
    """Limits of the whole job, counted from its submission."""
    deadline_s: float
    max_cost_usd: float | None
    max_tokens: int | None
    """Input and output together."""


class LineCount(TypedDict, total=False):
    """The number of lines that are not blank, or of list items outside of code fences: `value`, or a range."""
    kind: Required[Literal['lines', 'bullets']]
    value: int | None
    """Exactly this number."""
    min: int | None
    """At least this number."""
    max: int | None
    """At most this number."""


class ListJobs(TypedDict, total=False):
    limit: int
    after: str | None
    """`next_cursor` of the previous page."""
    status: Literal['queued', 'running', 'succeeded', 'failed', 'canceled'] | list[Literal['queued', 'running', 'succeeded', 'failed', 'canceled']]
    """Jobs with this status. Repeatable."""
    outcome: Literal['queued', 'running', 'accepted', 'not_accepted', 'not_evaluated', 'failed', 'canceled'] | list[Literal['queued', 'running', 'accepted', 'not_accepted', 'not_evaluated', 'failed', 'canceled']]
    """Jobs with this outcome: the status, and for an answer its verdict. Repeatable."""
    stop_reason: Literal['answered', 'accepted', 'iteration_limit', 'plateau', 'unchanged', 'budget_exhausted', 'deadline_exceeded', 'evaluator_error', 'evaluation_skipped', 'canceled', 'error'] | None
    kind: Literal['generate_answer', 'evaluate_answer', 'rescore_answers'] | None
    model: str | None
    """Jobs whose first iteration used this generator."""
    run_id: str | None
    """Jobs that are items of this run."""
    created_after: str | None
    created_before: str | None
    order: Literal['asc', 'desc']
    """The order by time of creation; `desc` lists the newest job first."""
    metadata: dict[str, str]
    """Values by name."""


class ListRunItems(TypedDict, total=False):
    limit: int
    after: str | None
    """`next_cursor` of the previous page."""
    status: Literal['queued', 'running', 'succeeded', 'failed', 'canceled', 'invalid'] | list[Literal['queued', 'running', 'succeeded', 'failed', 'canceled', 'invalid']]
    """Items with this status. Repeatable."""


class MaxGrade(TypedDict, total=False):
    """The Flesch-Kincaid grade, for English texts only."""
    kind: Required[Literal['max_grade']]
    value: Required[float]
    """Years of school."""


class NotContains(TypedDict, total=False):
    ignore_case: bool
    """Ignore the case of letters."""
    kind: Required[Literal['not_contains']]
    value: Required[str | list[str]]


class NumericBetween(TypedDict, total=False):
    """The answer contains exactly one number, which lies within the bounds or equals one of them."""
    kind: Required[Literal['numeric_between']]
    min: float | None
    max: float | None


class OutsideCheck(TypedDict, total=False):
    """A check that a request selects by its name. A request can name neither an address nor code."""
    kind: Required[Literal['http', 'package']]
    value: Required[str]
    """The name of the check in REDRAFT_HTTP_CHECKS, or of its entry point."""


class PreviewTemplate(TypedDict, total=False):
    """The job for which the first prompt is built, and texts in place of those of the stored version."""
    job_id: Required[str]
    vars: dict[str, Any]
    """Values in addition to the job's own."""
    texts: TemplateTexts | None
    """null: the stored version."""


class RateEvaluation(TypedDict, total=False):
    """A person's rating of an evaluation, or of one criterion of it."""
    verdict: Required[Literal['agree', 'disagree', 'unsure']]
    """Your opinion on the evaluator's decision to pass or fail the answer."""
    criterion: str | None
    """A criterion's id; null: the evaluation as a whole."""
    candidate: int | None
    """The number of the candidate; null: the one with the best score."""
    evaluation_id: str | None
    """The id of an evaluation by an audit or a rescoring; null: the job's own."""
    score: float | None
    """The score that you would have given."""
    note: str


class RefineQuestion(TypedDict, total=False):
    """A rough question, and the model that drafts a job from it."""
    question: Required[str]
    """What you want to know, in your own words."""
    model: str | None
    """provider:name; null: the configured generator."""


class RescoreJob(TypedDict, total=False):
    """How to evaluate the answers of a job again. Fields that are null keep their earlier value."""
    iterations: list[int] | None
    """Which iterations; null: all."""
    evaluator_model: str | None
    profile: str | None
    eval_crit: str | None
    rubric: list[Criterion] | None
    reference: str | None
    evaluation: EvaluationOptions | None
    evaluator_sampling: Sampling | None
    """Omitted fields keep their earlier value; a field with null is not sent."""
    score_threshold: float | None
    limits: Limits | None


class ResumeRun(TypedDict, total=False):
    """The items to run again, and a new budget."""
    retry: Literal['open', 'errors', 'failed']
    """open: items that were not started or were canceled. errors: failed items as well. failed: only failed
    items.
    """
    max_cost_usd: float | None
    """A larger budget for the whole run; items that the old one stopped continue. null: unchanged."""


Revision = TypedDict(
    'Revision',
    {
        'strategy': "Literal['revise', 'fresh', 'encourage']",
        'from': "Literal['best', 'last']",
    },
    total=False,
)


class RunGates(TypedDict, total=False):
    """Gates that are checked when a scheduled run ends."""
    min_pass_rate: float | None
    """The minimum share of accepted items of all items."""
    fail_on_regression: bool
    """Fail if the run is significantly worse than the last finished run of the schedule."""


class RunWebhook(TypedDict, total=False):
    """The URL that receives a run's events by Standard Webhooks."""
    url: Required[str]
    """http or https, without credentials."""
    events: list[Literal['run.finished', 'run.round_finished', 'run.gate_failed']]
    """The types of events to send. Only runs of a schedule with gates have `run.gate_failed`."""


class Sampling(TypedDict, total=False):
    """Sampling parameters. A parameter that is null is not sent. If a model refuses a parameter, the call is
    repeated without it, and the job has the warning `parameter_not_sent`.
    """
    temperature: float | None
    top_p: float | None
    max_output_tokens: int | None
    """The limit includes reasoning tokens."""
    reasoning_effort: Literal['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] | None
    """Sent as reasoning_effort (openai), or as thinking with an effort or a budget (anthropic)."""
    seed: int | None
    """Anthropic's API accepts no seed."""


class Search(TypedDict, total=False):
    kind: Required[Literal['regex', 'not_regex']]
    value: Required[str]
    """Searched for anywhere, in linear time; docs/checks.md describes the dialect."""
    ignore_case: bool
    """Ignore the case of letters."""


class SizeLimit(TypedDict, total=False):
    kind: Required[Literal['min_words', 'max_words', 'min_chars', 'max_chars']]
    value: Required[int]
    """Characters are counted as people see them, without outer white space."""


class Source(TypedDict, total=False):
    """A document chunk that can support the answer."""
    content: Required[str]
    chunk_id: str | None
    document_id: str | None
    title: str | None
    metadata: dict[str, str | int | float | bool | None]
    relevance_score: float | None


class StartsOrEndsWith(TypedDict, total=False):
    ignore_case: bool
    """Ignore the case of letters."""
    kind: Required[Literal['starts_with', 'ends_with']]
    value: Required[str]


class Stop(TypedDict, total=False):
    plateau_patience: int
    plateau_delta: float


class TemplateTexts(TypedDict, total=False):
    """The texts of a template."""
    system: Required[str]
    """The system prompt, with {{ system_instructions }} and {{ grounding_rules }}."""
    user: Required[str]
    """The task, with {{ instruct }}, {{ resp_format }}, {{ sources }}, {{ criteria }} and {{ schema }}."""


class Webhook(TypedDict, total=False):
    """The URL that receives a job's events by Standard Webhooks."""
    url: Required[str]
    """http or https, without credentials."""
    events: list[Literal['job.queued', 'job.started', 'iteration.started', 'iteration.generated', 'iteration.evaluated', 'thinking', 'step.retrying', 'job.continued', 'done', 'evaluated']]
    """The types of events to send."""
