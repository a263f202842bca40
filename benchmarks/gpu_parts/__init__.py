"""The parts of `benchmarks/gpu_first.py`."""
