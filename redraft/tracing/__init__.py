"""Exports the traces of jobs by OpenTelemetry (docs/tracing.md).

The trace of a job is made from its rows when it has ended. So it is complete, even if several workers executed the job.
"""
