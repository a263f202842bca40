"""Learning over ranks: processes that hold the same parameters and share out micro-batches."""
