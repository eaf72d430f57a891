#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    whimbrel_sim::fuzz::blocks_of_a_hostile_peer(input);
});
