//! Processes that a killed run has left, known by a mark in their environment.

use std::fs;

use super::sys;

/// Variable that every process of a trial has.
pub(crate) const MARK: &str = "WHIMBREL_LAB_RUN";

/// Returns the value of the variable: this process's id and its start time, since process ids are reused.
pub(crate) fn mark() -> String {
    let process = std::process::id();
    format!("{process}:{}", started(process).unwrap_or_default())
}

/// Ends the processes that carry the mark of a run that is gone. Returns how many there were.
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
    // The process is gone, or belongs to another user and so is not ours.
    let Ok(environment) = fs::read(format!("/proc/{process}/environ")) else { return false };
    let prefix = format!("{MARK}=");
    let mark = environment.split(|byte| *byte == 0).find_map(|pair| pair.strip_prefix(prefix.as_bytes()));
    mark.and_then(|mark| std::str::from_utf8(mark).ok()).is_some_and(|mark| !is_running(mark))
}

fn is_running(mark: &str) -> bool {
    let runner = mark.split_once(':').and_then(|(process, at)| Some((process.parse().ok()?, at)));
    runner.is_some_and(|(process, at)| started(process).as_deref() == Some(at))
}

/// Returns when a process started, in clock ticks since boot.
fn started(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold any character and ends at the last parenthesis. Field 22 of proc(5) is the 20th after it.
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
        assert!(!is_running(&format!("{mark}0")), "another process with that id");
        assert!(!is_running("0:0") && !is_running("what"));
    }
}
