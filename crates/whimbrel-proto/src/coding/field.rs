//! Arithmetic in the field of 256 elements, with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (RFC 8681, section 3.7.1).

const POLYNOMIAL: u16 = 0x11d;

/// The powers of 2, twice, so that a sum of two logarithms needs no modulus.
const POWERS: [u8; 510] = powers();
/// The logarithms to the base 2. That of 0 means nothing.
const LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let mut all = [0; 510];
    let (mut at, mut value) = (0, 1u16);
    while at < 510 {
        all[at] = value as u8;
        value <<= 1;
        if value > 0xff {
            value ^= POLYNOMIAL;
        }
        at += 1;
    }
    all
}

const fn logarithms() -> [u8; 256] {
    let mut all = [0; 256];
    let mut at = 0;
    while at < 255 {
        all[POWERS[at] as usize] = at as u8;
        at += 1;
    }
    all
}

/// All products. A row of them is computed in the time in which a short symbol is added.
static PRODUCTS: [[u8; 256]; 256] = products();

const fn products() -> [[u8; 256]; 256] {
    let mut all = [[0; 256]; 256];
    let mut a = 1;
    while a < 256 {
        let mut b = 1;
        while b < 256 {
            all[a][b] = POWERS[LOGARITHMS[a] as usize + LOGARITHMS[b] as usize];
            b += 1;
        }
        a += 1;
    }
    all
}

fn log(value: u8) -> usize {
    usize::from(LOGARITHMS[usize::from(value)])
}

#[cfg(test)]
pub(super) fn multiply(a: u8, b: u8) -> u8 {
    PRODUCTS[usize::from(a)][usize::from(b)]
}

/// Returns the inverse. Zero has none.
pub(super) fn inverse(value: u8) -> Option<u8> {
    (value != 0).then(|| POWERS[255 - log(value)])
}

/// Adds `factor` times `bytes` to `to`, which grows to their length if it is shorter.
pub(super) fn add(to: &mut Vec<u8>, factor: u8, bytes: &[u8]) {
    if to.len() < bytes.len() {
        to.resize(bytes.len(), 0);
    }
    add_to(to, factor, bytes);
}

/// Adds `factor` times `bytes` to as many of `to`.
pub(super) fn add_to(to: &mut [u8], factor: u8, bytes: &[u8]) {
    match factor {
        0 => {}
        1 => to.iter_mut().zip(bytes).for_each(|(to, byte)| *to ^= byte),
        _ => {
            let row = &PRODUCTS[usize::from(factor)];
            to.iter_mut().zip(bytes).for_each(|(to, byte)| *to ^= row[usize::from(*byte)]);
        }
    }
}

/// Multiplies all of `bytes` by `factor`.
pub(super) fn scale(bytes: &mut [u8], factor: u8) {
    if factor != 1 {
        let row = &PRODUCTS[usize::from(factor)];
        bytes.iter_mut().for_each(|byte| *byte = row[usize::from(*byte)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_field() {
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a).unwrap()), 1);
            assert_eq!((multiply(a, 1), multiply(a, 0), multiply(0, a)), (a, 0, 0));
            for b in 0..=255 {
                assert_eq!(multiply(a, b), multiply(b, a));
                assert_eq!(multiply(a, b ^ 0x35), multiply(a, b) ^ multiply(a, 0x35));
            }
        }
        assert_eq!(inverse(0), None);
        // Multiplied by hand: x^7 times x is x^8, which is x^4 + x^3 + x^2 + 1.
        assert_eq!(multiply(0x80, 2), 0x1d);
    }

    #[test]
    fn adding_twice_changes_nothing() {
        let mut sum = vec![1, 2, 3];
        add(&mut sum, 77, &[9, 8, 7, 6]);
        assert_ne!(sum, [1, 2, 3, 0]);
        add(&mut sum, 77, &[9, 8, 7, 6]);
        assert_eq!(sum, [1, 2, 3, 0]);
        scale(&mut sum, 5);
        assert_eq!(sum, [5, 10, 15, 0]);
    }
}
