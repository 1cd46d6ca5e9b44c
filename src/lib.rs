#[cfg(feature = "service")]
pub mod ctl;
#[cfg(feature = "service")]
pub mod proto {
    tonic::include_proto!("drover.v1");
}
