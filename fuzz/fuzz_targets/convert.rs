//! No bytes make the conversion of a request panic. The first byte picks the kind of the message, the others are the message.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some((which, message)) = input.split_first() {
        drover::rpc::convert::fuzz::convert(*which, message);
    }
});
