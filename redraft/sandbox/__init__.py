"""Runs native code on untrusted data in child processes, whose limits the kernel enforces.

Native code holds the interpreter's lock. Meanwhile no other thread of the process runs, so no thread can stop the code.
"""
