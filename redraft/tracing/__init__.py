"""Exports the traces of jobs by OpenTelemetry (docs/tracing.md).

The trace of a job is made from its rows when it has ended. So it is whole, whatever workers executed the job.
"""
