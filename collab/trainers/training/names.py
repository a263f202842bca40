"""Names of the files that training leaves behind; imports nothing."""

TRAINING = "training.yaml"
METRICS = "metrics.jsonl"
EVALUATION = "evaluation.jsonl"
