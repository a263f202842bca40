"""Learning over ranks: processes that hold the same parameters and divide the micro-batches."""
