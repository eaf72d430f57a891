//! What a killed run may have left, known by a mark in its environment.

use std::fs;

use super::sys;

/// The variable that every process of a trial has.
pub(crate) const MARK: &str = "WHIMBREL_LAB_RUN";

/// What it is set to: this process and when it started, since numbers of processes come again.
pub(crate) fn mark() -> String {
    let process = std::process::id();
    format!("{process}:{}", started(process).unwrap_or_default())
}

/// Ends processes that bear the mark of a run that is no more; how many there were.
pub(super) fn end() -> std::io::Result<usize> {
    let mut ended = 0;
    for entry in fs::read_dir("/proc")? {
        let process = entry?.file_name().to_string_lossy().parse::<u32>();
        if let Ok(process) = process
            && is_orphan(process)
        {
            sys::signal(process.cast_signed(), libc::SIGKILL)?;
            ended += 1;
        }
    }
    Ok(ended)
}

fn is_orphan(process: u32) -> bool {
    // Gone, or another user's: not ours.
    let Ok(environment) = fs::read(format!("/proc/{process}/environ")) else { return false };
    let prefix = format!("{MARK}=");
    let mark = environment.split(|byte| *byte == 0).find_map(|pair| pair.strip_prefix(prefix.as_bytes()));
    mark.and_then(|mark| std::str::from_utf8(mark).ok()).is_some_and(|mark| !is_running(mark))
}

fn is_running(mark: &str) -> bool {
    let runner = mark.split_once(':').and_then(|(process, at)| Some((process.parse().ok()?, at)));
    runner.is_some_and(|(process, at)| started(process).as_deref() == Some(at))
}

/// When a process started, in ticks since the machine did.
fn started(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, which may hold anything, ends at the last parenthesis; field 22 of proc(5) is the 20th behind it.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_holds_as_long_as_its_process() {
        let mark = mark();
        assert!(is_running(&mark));
        assert!(!is_running(&format!("{mark}0")), "another process of that number");
        assert!(!is_running("0:0") && !is_running("what"));
    }
}
