"""Runs native code on untrusted data in child processes, whose limits the kernel enforces.

Native code holds the interpreter's lock: meanwhile no other thread of its process runs, so none could stop the code.
"""
