//! A server over real connections: one behaviour a file.

#![allow(clippy::disallowed_methods, reason = "every task ends with the runtime of its test")]

mod degraded;
mod drain;
mod health;
mod pages;
mod panics;
mod support;
