"""Tests against a real `counterstep dev`: `COUNTERSTEP_PROGRAM=path python3 -m unittest`."""
