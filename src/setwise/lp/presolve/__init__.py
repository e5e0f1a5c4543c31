"""Presolve and scaling: equivalent programs that are easier to solve, and postsolve to the original one."""
