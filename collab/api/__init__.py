"""The Python interface: training from objects, and reading the results of runs."""
