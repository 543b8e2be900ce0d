"""Emission: results as record batches (`output`), and for emit="changes" only those that differ (`emitter`)."""
