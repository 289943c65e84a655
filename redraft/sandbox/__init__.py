"""Computation on data from outside that native code does, in child processes that the kernel limits.

Native code holds the interpreter's lock: while it runs, no other thread of its process does, and nothing within the
process can end it. A child process can be ended, and its parent goes on.
"""
