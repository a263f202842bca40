"""The training run: steps, validation, checkpoints, metrics, the folder."""
