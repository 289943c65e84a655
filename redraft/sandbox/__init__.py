"""Run native code on untrusted data in child processes with limits that the kernel enforces.

Native code holds the interpreter's lock: while it runs, no other thread of the process runs, and nothing in the
process can stop it. A child process can be ended, and its parent goes on.
"""
