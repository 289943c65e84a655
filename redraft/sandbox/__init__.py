"""Runs native code on untrusted data in child processes with limits that the kernel enforces.

Native code holds the interpreter's lock: no other thread runs meanwhile, and nothing in the process can stop it.
"""
