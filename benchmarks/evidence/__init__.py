"""Does iterating help? Arms of the loop at equal numbers of calls, on tasks whose answers code grades."""
