"""Runs native code on untrusted data in child processes with limits that the kernel enforces.

Native code holds the interpreter's lock, so no other thread of the process runs, and no thread can stop the code.
"""
