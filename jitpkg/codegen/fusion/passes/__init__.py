"""Passes over schedules: each makes another program of loops that does the same."""
