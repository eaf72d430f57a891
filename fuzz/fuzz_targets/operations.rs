#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    #[cfg(feature = "planted")]
    whimbrel_proto::mutants::plant(Some(whimbrel_proto::mutants::Mutant::FragmentOffByOne));
    whimbrel_sim::fuzz::operations(input);
});
