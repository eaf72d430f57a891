use super::decoder::{Decoder, Recovered};
use super::encoder::Encoder;
use super::repair::{LONGEST_WINDOW, Repair};
use std::time::Duration;

/// Numbers that look random, from a seed.
struct Dice(u64);
impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn bytes(&mut self, n: u64) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

const LIFE: Duration = Duration::from_millis(100);
fn at(ms: u64) -> crate::Time {
    crate::Time::ZERO + Duration::from_millis(ms)
}

#[test]
fn as_many_repairs_as_losses_recover_all() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let start = dice.below(40);
        for _ in 0..start {
            encoder.push(at(0), Duration::ZERO, b"old");
        }
        let count = 1 + dice.below(60);
        let symbols: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let n = dice.below(200);
                dice.bytes(n)
            })
            .collect();
        let mut lost = Vec::new();
        for symbol in &symbols {
            let number = encoder.push(at(1), LIFE, symbol);
            if dice.below(4) == 0 {
                lost.push((number, symbol.clone()));
            } else {
                assert_eq!(decoder.on_symbol(number, symbol), []);
            }
        }
        let mut got = Vec::new();
        // A repair may follow from others, with a chance of 1 in 255.
        let mut sent = 0;
        while got.len() < lost.len() {
            let repair = encoder.repair(at(2)).unwrap();
            got.extend(decoder.on_repair(&repair));
            sent += 1;
            assert!(sent <= lost.len() + 2, "seed {seed}: {sent} for {}", lost.len());
        }
        got.sort_by_key(|recovered| recovered.number);
        let got: Vec<_> = got.into_iter().map(|Recovered { number, symbol }| (number, symbol)).collect();
        assert_eq!(got, lost, "seed {seed}");
    }
}

/// Whatever order, loss and repetition: what is recovered is what was sent, and once.
#[test]
fn what_is_recovered_is_what_was_sent() {
    let mut total = 0;
    for seed in 0..60 {
        let mut dice = Dice(1000 + seed);
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let mut sent = Vec::new();
        let mut arrived = std::collections::BTreeSet::new();
        let mut flight: Vec<(u64, Result<u64, Repair>)> = Vec::new();
        for ms in 0..1500u64 {
            if dice.below(3) == 0 {
                let n = dice.below(100);
                let symbol = dice.bytes(n);
                let number = encoder.push(at(ms), LIFE, &symbol);
                assert_eq!(number, sent.len() as u64);
                sent.push(symbol);
                flight.push((ms + dice.below(30), Ok(number)));
            }
            if dice.below(8) == 0 {
                flight.extend(encoder.repair(at(ms)).map(|repair| (ms + dice.below(30), Err(repair))));
            }
            flight.retain(|_| dice.below(50 * 30) != 0);
            let now: Vec<_> = flight.extract_if(.., |(due, _)| *due <= ms).collect();
            for (_, what) in now {
                if dice.below(10) == 0 {
                    continue;
                }
                let times = 1 + usize::from(dice.below(10) == 0);
                for _ in 0..times {
                    let got = match &what {
                        Ok(number) => {
                            arrived.insert(*number);
                            decoder.on_symbol(*number, &sent[*number as usize])
                        }
                        Err(repair) => decoder.on_repair(repair),
                    };
                    for Recovered { number, symbol } in got {
                        assert_eq!(symbol, sent[number as usize], "seed {seed}");
                        assert!(arrived.insert(number), "seed {seed}: {number} twice");
                        total += 1;
                    }
                }
            }
        }
    }
    assert!(total > 1000, "{total}");
    println!("{total}");
}

#[test]
fn hostile_symbols_and_repairs_are_bounded() {
    let mut dice = Dice(7);
    let mut decoder = Decoder::default();
    for _ in 0..20_000 {
        let number = match dice.below(6) {
            0 => u64::MAX - dice.below(3),
            1 => dice.next(),
            _ => dice.below(2000),
        };
        if dice.below(2) == 0 {
            let n = dice.below(9);
            let b = dice.bytes(n);
            decoder.on_symbol(number, &b);
        } else {
            let count = match dice.below(5) {
                0 => u64::MAX,
                1 => 0,
                2 => LONGEST_WINDOW + 1,
                _ => dice.below(LONGEST_WINDOW),
            };
            let n = dice.below(9);
            decoder.on_repair(&Repair { first: number, count, key: dice.next() as u16, sum: dice.bytes(n) });
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures the core from outside")]
#[ignore = "prints how long repair symbols take that nothing can be recovered from; asserts nothing more"]
fn speed_of_hostile_repairs() {
    const COUNT: u16 = 5_000;
    for length in [0, 1_400] {
        let mut decoder = Decoder::default();
        let begun = std::time::Instant::now();
        for key in 0..COUNT {
            let repair = Repair { first: 0, count: LONGEST_WINDOW, key, sum: vec![7; length] };
            assert_eq!(decoder.on_repair(&repair), []);
        }
        println!("{length} bytes: {:?} each", begun.elapsed() / u32::from(COUNT));
    }
}
