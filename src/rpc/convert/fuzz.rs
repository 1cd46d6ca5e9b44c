//! One door for whoever throws arbitrary bytes at the conversions: the property tests and the fuzz target.

use prost::Message;

use super::*;

/// Reads the bytes as one of the request messages, the one that `which` picks, and converts it if it is one.
#[doc(hidden)]
pub fn convert(which: u8, bytes: &[u8]) {
    fn read<R: Message + Default, T>(bytes: &[u8], convert: impl FnOnce(R) -> Result<T, Violations>) {
        if let Ok(request) = R::decode(bytes)
            && let Err(violations) = convert(request)
        {
            assert!(!violations.list().is_empty() && violations.list().len() <= MAX_VIOLATIONS);
            let _ = tonic::Status::from(violations);
        }
    }
    match which % 10 {
        0 => read(bytes, |request| acquire(request, None, None)),
        1 => read(bytes, renew),
        2 => read(bytes, report),
        3 => read(bytes, |request| invalidate(request, None)),
        4 => read(bytes, |request| check_subscribe(&request)),
        5 => read(bytes, |request| check_ack(&request)),
        6 => read(bytes, |request| check_schedule(&request).map(drop)),
        7 => read(bytes, |request| describe(&request)),
        8 => read(bytes, leases),
        _ => read(bytes, |request| namespaces(&request)),
    }
}
