//! A server over real connections: one behaviour a file.

mod drain;
mod health;
mod pages;
mod panics;
mod support;
