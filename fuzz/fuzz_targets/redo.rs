//! The decoder of log records: whatever the bytes, it decodes or refuses them.
#![no_main]

use halcyon_txn::decode_redo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = decode_redo(input);
});
