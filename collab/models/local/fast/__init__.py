"""Optional speed-ups of a local model. `model.fast: false` disables them all.

`accelerated_cache` takes the place of `collab.models.local.kv_cache.plain_cache` and gives the same
answers, up to rounding. Each feature has a test that compares it with the plain way:

- `shared_prefix`      rows of one prompt attend to it together; keys and values grow in buffers
- `cuda_graph`         a GPU replays the kernels of a token
- `accelerated`        layers that read the same input are one product
- `prepacked_weights`  products of few rows by weights in oneDNN's layout
- `equivalence`        which models these give the same answers for
- `memory`             freed memory goes back to the system
"""
