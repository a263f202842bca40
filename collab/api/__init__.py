"""The Python interface: training and evaluation from objects, and reading the results of runs."""
