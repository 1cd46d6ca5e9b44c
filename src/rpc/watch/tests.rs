//! The adapter over a plain stream of requests.
