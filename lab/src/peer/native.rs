//! Peers that are C programs. The process of a side becomes such a program.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// A C program of the laboratory.
pub(super) struct Native {
    /// Its name, which is also that of its source without `.c`.
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    /// Header of the library it needs. Without it, the library is not installed.
    pub(super) header: &'static str,
    /// Debian package that has the library.
    pub(super) package: &'static str,
    pub(super) library: &'static str,
}

impl Native {
    /// Returns why it cannot run here and what to do. `None` if it can run.
    pub(super) fn missing(&self) -> Option<String> {
        self.built().err().map(|error| format!("{error:#}"))
    }

    /// Replaces this process with the program. Returns only if that fails.
    pub(super) fn run(&self, arguments: &[String]) -> anyhow::Error {
        let program = match self.built() {
            Ok(program) => program,
            Err(error) => return error,
        };
        let error = Command::new(program).args(arguments).exec();
        anyhow::Error::from(error).context(format!("cannot start lab-{}", self.name))
    }

    /// Returns the path of the program. It is built beside this one if it is missing or out of date.
    fn built(&self) -> anyhow::Result<PathBuf> {
        let Self { name, source: text, header, package, library } = self;
        ensure!(Path::new(header).exists(), "lib{library} is not installed: `apt-get install {package}`");
        let here = std::env::current_exe()?;
        let directory = here.parent().context("this program has no directory")?;
        let (source, program) = (directory.join(format!("{name}.c")), directory.join(format!("lab-{name}")));
        if program.exists() && std::fs::read_to_string(&source).is_ok_and(|built| built == *text) {
            return Ok(program);
        }
        // Several processes may build it at a time. Each builds a copy of its own, and the last one stays.
        let mine = directory.join(format!("lab-{name}-{}", std::process::id()));
        let mine_source = mine.with_extension("c");
        std::fs::write(&mine_source, text)?;
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-o"]).arg(&mine).arg(&mine_source);
        compiler.arg(format!("-l{library}")).arg("-lpthread");
        let output = compiler.output().context("no C compiler: `apt-get install gcc`")?;
        ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr).trim());
        std::fs::rename(&mine, &program)?;
        std::fs::rename(&mine_source, &source)?;
        Ok(program)
    }
}
