#[cfg(feature = "service")]
pub mod proto {
    tonic::include_proto!("drover.v1");
}

#[cfg(feature = "service")]
pub mod bench;
