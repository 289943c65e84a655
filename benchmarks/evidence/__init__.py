"""Measures whether iterating helps. Each arm spends at most the same number of calls on tasks that code grades."""
