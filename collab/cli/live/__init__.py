"""Following a run, a training or an evaluation while it goes on."""
