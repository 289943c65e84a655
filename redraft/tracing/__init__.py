"""Exports the traces of jobs by OpenTelemetry (docs/tracing.md).

A trace is made from the job's rows when the job has ended. So it is complete, even if several workers executed the job.
"""
