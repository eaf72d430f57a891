//! `cargo xtask selectors` compares the broker's selectors with those of Artemis.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};

use crate::process::{cargo, program, root};
use crate::tools;

/// The parser of another broker, whose deviations from JMS are known.
const ARTEMIS: &str = "2.44.0";

/// Where the parser, its dependencies and the program that asks it lie.
const FOLDER: &str = "target/artemis";

/// The program that asks it.
const ORACLE: &str = "crates/whimbrel-broker/tests/selectors/oracle/Oracle.java";

/// Compares the broker's selectors with those of Apache ActiveMQ Artemis, another broker.
///
/// Random selectors and messages go to both. They have to differ as docs/selectors.md says, and nowhere else.
/// The first run fetches Artemis's parser with Maven.
#[derive(clap::Args)]
pub(crate) struct Selectors {
    /// The number of random selectors. Each is asked of four messages.
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    count: u64,

    /// The seed of the random selectors.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

impl Selectors {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        tools::java().map_err(anyhow::Error::msg)?;
        let folder = root().join(FOLDER);
        let archives = fetch(&folder)?;
        let classes = folder.join("classes");
        let mut compile = program("javac", &["-cp", &archives, "-d"]);
        let compiled = compile.arg(&classes).arg(ORACLE).status().context("cannot run javac")?;
        ensure!(compiled.success(), "{ORACLE} could not be compiled");
        let test = ["test", "--package", "whimbrel-broker", "--test", "selectors", "artemis"];
        let status = cargo(&test)
            .args(["--", "--ignored", "--nocapture", "--test-threads", "1"])
            .env("WHIMBREL_ARTEMIS_CLASSES", format!("{}:{archives}", classes.display()))
            .env("WHIMBREL_ARTEMIS_COUNT", self.count.to_string())
            .env("WHIMBREL_ARTEMIS_SEED", self.seed.to_string())
            .status()
            .context("cannot run cargo")?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Fetches the parser and what it needs, unless it was fetched before. Returns the archives as Java takes them.
fn fetch(folder: &Path) -> anyhow::Result<String> {
    let archives = folder.join(ARTEMIS);
    if !archives.join(format!("artemis-selector-{ARTEMIS}.jar")).exists() {
        println!("fetching artemis-selector {ARTEMIS}");
        std::fs::create_dir_all(folder)?;
        let project = folder.join("pom.xml");
        std::fs::write(&project, pom())?;
        let mut copy = program("mvn", &["--quiet", "--batch-mode", "dependency:copy-dependencies", "--file"]);
        copy.arg(&project).arg(format!("-DoutputDirectory={}", archives.display()));
        let fetched = copy.status().context("cannot run mvn")?;
        ensure!(fetched.success(), "artemis-selector {ARTEMIS} could not be fetched with Maven");
    }
    Ok(format!("{}/*", archives.display()))
}

/// A project that only names what is to be fetched.
fn pom() -> String {
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">
  <modelVersion>4.0.0</modelVersion>
  <groupId>whimbrel</groupId>
  <artifactId>artemis</artifactId>
  <version>0</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.activemq</groupId>
      <artifactId>artemis-selector</artifactId>
      <version>{ARTEMIS}</version>
    </dependency>
  </dependencies>
</project>
"
    )
}
