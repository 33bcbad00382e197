//! The message decoder: whatever the bytes, it decodes or refuses them.
#![no_main]

use halcyon_server::wire::frontend::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some((kind, body)) = input.split_first() {
        let _ = decode(*kind, bytes::Bytes::copy_from_slice(body));
    }
});
