//! The edge: from protobuf to the domain and back, and nothing else.

pub mod layers;
