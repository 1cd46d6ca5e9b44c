//! No text makes the reading of a cursor panic, and what is read as a cursor is written the same again.
#![no_main]

use drover::fanout::Cursor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(cursor) = Cursor::decode(text) {
        assert_eq!(&*cursor.encode(), text);
    }
});
