//! Sentences about the fan-out, on paused time.
