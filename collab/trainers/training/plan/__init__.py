"""What a training run would take, told before it begins."""
