//! Making a dictionary from examples.

use super::dictionary::{Dictionary, SMALLEST as USEFUL};

/// The fewest examples that a dictionary can be made of.
const FEWEST: usize = 8;
/// The smallest dictionary.
const SMALLEST: usize = 1024;

/// Why no dictionary can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotTrain {
    /// There are too few examples.
    #[error("there are only {0} records, which is too few: give at least 8, or better, a few hundred")]
    TooFew(usize),
    /// The size cannot be.
    #[error("a dictionary cannot have {0} bytes: choose 1 KB to 256 KB, such as --size 16KB")]
    Size(usize),
    /// The library finds nothing in them.
    #[error(
        "the records have too little in common, or are too short, for a dictionary ({0}): give more of them"
    )]
    NothingInCommon(String),
}

/// Makes a dictionary of at most `size` bytes from examples.
///
/// # Errors
/// See [`CannotTrain`].
pub fn train(examples: &[Vec<u8>], size: usize) -> Result<Vec<u8>, CannotTrain> {
    if !(SMALLEST..=Dictionary::LARGEST).contains(&size) {
        return Err(CannotTrain::Size(size));
    }
    let used: Vec<&Vec<u8>> = examples.iter().filter(|example| !example.is_empty()).collect();
    if used.len() < FEWEST {
        return Err(CannotTrain::TooFew(used.len()));
    }
    let sizes: Vec<usize> = used.iter().map(|example| example.len()).collect();
    let joined: Vec<u8> = used.into_iter().flatten().copied().collect();
    let mut dictionary = Vec::with_capacity(size);
    zstd_safe::train_from_buffer(&mut dictionary, &joined, &sizes)
        .map_err(|code| CannotTrain::NothingInCommon(zstd_safe::get_error_name(code).to_lowercase()))?;
    // What the library finds in next to nothing is next to nothing.
    if dictionary.len() < USEFUL {
        return Err(CannotTrain::NothingInCommon(format!("{} bytes", dictionary.len())));
    }
    Ok(dictionary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_dictionary_is_said() {
        let examples = vec![b"<event/>".to_vec(); 7];
        assert_eq!(train(&examples, 16_384), Err(CannotTrain::TooFew(7)));
        assert_eq!(train(&examples, 10), Err(CannotTrain::Size(10)));
        let short = vec![b"x".to_vec(); 20];
        let error = train(&short, 16_384).unwrap_err();
        assert!(matches!(error, CannotTrain::NothingInCommon(_)), "{error}");
    }
}
