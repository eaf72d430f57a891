#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    #[cfg(feature = "planted")]
    whimbrel_proto::mutants::plant(Some(whimbrel_proto::mutants::Mutant::SackBelowZero));
    whimbrel_sim::fuzz::sack_block(input);
});
