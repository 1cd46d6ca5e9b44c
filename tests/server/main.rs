//! A server over real connections: one behaviour a file.

mod degraded;
mod drain;
mod health;
mod pages;
mod panics;
mod support;
