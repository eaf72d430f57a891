#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    whimbrel_broker::fuzz::frames(input);
});
