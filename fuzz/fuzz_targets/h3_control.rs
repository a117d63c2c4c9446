#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| howdah_http::properties::h3_control(data));
