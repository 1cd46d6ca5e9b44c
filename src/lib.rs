#[cfg(feature = "service")]
pub mod lab;
#[cfg(feature = "service")]
pub mod proto {
    tonic::include_proto!("drover.v1");
}
