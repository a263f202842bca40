"""The face in Python: training from objects, and what runs have left."""
