//! `whimbrel proxy train`: makes a dictionary from examples.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use whimbrel_proxy::compress::{DatagramCodec, Dictionary, Method, train};

use crate::output::{note, print_line};
use crate::process::Misused;
use crate::units;

/// The most bytes of examples that are used. More take longer and improve little.
const MOST: usize = 16 << 20;
/// The most records that the dictionary is tried on.
const MOST_TRIED: usize = 2_000;

/// Makes a dictionary from examples. It lets even the first record of the same kind compress well.
///
/// Give it a few hundred records like those that your programs send, with one in each file or one on each line. Copy the
/// dictionary to the hosts of both proxies, name it there under [dictionaries] (or with --dictionary), and name it in a
/// rule that has a `compression`. Both ends must have the same file; if one lacks it, records are
/// compressed without it, and datagrams not at all. A dictionary contains parts of the examples: use no secrets for them.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  whimbrel proxy train records/*.xml --out cot.dict
  whimbrel proxy train sensors.jsonl --records lines --out sensors.dict --size 32KB")]
pub(super) struct TrainCommand {
    /// Files with examples.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where to write the dictionary.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace FILE if it exists. Flows are compressed with a dictionary only while both ends have the same.
    #[arg(long)]
    force: bool,
    /// The size of the dictionary, 1 KB to 256 KB. 16 KB suits records of up to a few KB.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "16KB")]
    size: u64,
    /// The unit that counts as a record [default: a line if there is one FILE, else a file].
    #[arg(long, value_name = "WHAT")]
    records: Option<Records>,
}

/// The unit that is a record.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Records {
    /// Each line of each file.
    Lines,
    /// Each file.
    Files,
}

impl TrainCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let records = self.read()?;
        if self.out.exists() && !self.force {
            return Err(self.is_there().into());
        }
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let bytes = train(&records, size).map_err(|error| Misused(error.to_string()))?;
        let dictionary = Dictionary::new(&bytes)?;
        self.write(&bytes)?;
        let shares = [None, Some(&dictionary)].map(|dictionary| share(&records, dictionary));
        let gain = match shares {
            [Some(without), Some(with)] => {
                format!("; each of its records by itself shrinks to {with} %, without it to {without} %")
            }
            _ => String::new(),
        };
        print_line(format_args!(
            "made {} of {} records: {} bytes, id {}{gain}",
            self.out.display(),
            records.len(),
            bytes.len(),
            dictionary.id()
        ))
    }

    fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut options = File::options();
        match self.force {
            true => options.write(true).create(true).truncate(true),
            // It may have come meanwhile.
            false => options.write(true).create_new(true),
        };
        match options.open(&self.out).and_then(|mut file| file.write_all(bytes)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(self.is_there().into()),
            Err(error) => Err(anyhow::anyhow!("cannot write {}: {error}", self.out.display())),
            Ok(()) => Ok(()),
        }
    }

    fn is_there(&self) -> Misused {
        Misused(format!(
            "{} exists already: choose another --out, or replace it with --force",
            self.out.display()
        ))
    }

    fn read(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let usual = if self.files.len() == 1 { Records::Lines } else { Records::Files };
        let (mut records, mut length, mut is_cut) = (Vec::new(), 0, false);
        for file in &self.files {
            if is_same(file, &self.out) {
                let why = format!(
                    "{} is an example and would be overwritten: choose another --out",
                    file.display()
                );
                return Err(Misused(why).into());
            }
            let room = (MOST + 1).saturating_sub(length);
            let bytes = read(file, room)?;
            is_cut |= bytes.len() == room;
            match self.records.unwrap_or(usual) {
                Records::Files => add(&mut records, &mut length, &bytes),
                Records::Lines => {
                    bytes.split(|byte| *byte == b'\n').for_each(|line| add(&mut records, &mut length, line));
                }
            }
        }
        if is_cut {
            note(format_args!("used the first {} MB of the examples", MOST >> 20));
        }
        Ok(records)
    }
}

/// Adds a record, unless there is enough.
fn add(records: &mut Vec<Vec<u8>>, length: &mut usize, record: &[u8]) {
    *length += record.len();
    if !record.is_empty() && *length <= MOST {
        records.push(record.to_vec());
    }
}

/// Whether both paths name one file that is there.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Reads at most so many bytes: a file may be far larger than what is used of it, or have no end.
fn read(file: &Path, most: usize) -> Result<Vec<u8>, Misused> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(most as u64).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| {
        Misused(format!("cannot read {}: {error}; name files with examples", file.display()))
    })
}

/// The size of records that are compressed each by itself, in percent.
fn share(records: &[Vec<u8>], dictionary: Option<&Dictionary>) -> Option<usize> {
    let mut codec = DatagramCodec::new("zstd:3".parse::<Method>().ok()?, dictionary).ok()?;
    // From the whole of the examples.
    let tried = records.iter().step_by(records.len().div_ceil(MOST_TRIED).max(1));
    let (plain, packed) = tried.fold((0, 0), |(plain, packed), record| {
        let became = codec.pack(record).map_or(record.len(), |packed| packed.len());
        (plain + record.len(), packed + became)
    });
    (packed * 100).checked_div(plain)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        train: TrainCommand,
    }

    #[test]
    fn regression_a_dictionary_is_replaced_only_by_force() {
        let folder = std::env::temp_dir().join(format!("whimbrel-train-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [examples, out] = ["examples", "x.dict"].map(|name| folder.join(name).display().to_string());
        let lines: String = (0..500).map(|at| format!("<event uid='{at}' type='a-f-G'/>\n")).collect();
        std::fs::write(&examples, lines).unwrap();
        std::fs::write(&out, "mine").unwrap();
        let run = |more: &[&str]| {
            let line = [&["train", &examples, "--out", &out, "--size", "2KB"], more].concat();
            Line::try_parse_from(line).unwrap().train.run().map_err(|error| error.to_string())
        };
        let refused = run(&[]).unwrap_err();
        let kept = std::fs::read(&out).unwrap();
        let forced = run(&["--force"]);
        let replaced = std::fs::read(&out).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        assert!(refused.contains("exists already") && refused.contains("--force"), "{refused}");
        assert_eq!((kept, forced), (b"mine".to_vec(), Ok(())));
        assert_ne!(replaced, b"mine");
    }
}
