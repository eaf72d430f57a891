//! The near end's process: runs one part after the other, then prints the findings.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};
use whimbrel_cli::output::{note, print_line};
use whimbrel_cli::process::{Interrupted, interrupted};

use crate::far_end::FarEnd;
use crate::findings::{Findings, table};
use crate::scale::Scale;
use crate::screen::Screen;
use crate::stage::Stage;
use crate::{broker, file, positions, proxy, rebinding, urgent};

/// A part of the show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The transport: a file, positions, urgent messages, a change of address.
    Transport,
    /// The proxy.
    Proxy,
    /// The broker.
    Broker,
}

/// The demo and its options.
pub(crate) struct Show {
    pub(crate) part: Part,
    pub(crate) quick: bool,
    pub(crate) json: bool,
    pub(crate) seed: u64,
}

impl Show {
    /// Runs the demo. Returns true if everything arrived that should have.
    pub(crate) async fn run(self) -> anyhow::Result<bool> {
        let (start, interrupted) = (Instant::now(), interrupted()?);
        let screen = Arc::new(Screen::new(self.json));
        let scale = if self.quick { Scale::QUICK } else { Scale::FULL };
        let findings = match self.part {
            Part::Transport => self.transport(&screen, scale, interrupted).await?,
            Part::Proxy => tokio::select! {
                findings = proxy::play(&screen, &scale, self.seed) => vec![findings?],
                signal = interrupted => return Err(signal.into()),
            },
            Part::Broker => tokio::select! {
                findings = broker::play(&screen, &scale, self.seed) => vec![findings?],
                signal = interrupted => return Err(signal.into()),
            },
        };
        screen.clear();
        self.tell(&findings, start.elapsed().as_secs_f64())
    }

    async fn transport(
        &self,
        screen: &Arc<Screen>,
        scale: Scale,
        interrupted: impl Future<Output = Interrupted>,
    ) -> anyhow::Result<Vec<Findings>> {
        let stage =
            Stage { far: FarEnd::start(screen).await?, screen: Arc::clone(screen), scale, seed: self.seed };
        let findings = tokio::select! {
            findings = play(&stage) => findings,
            signal = interrupted => Err(signal.into()),
        };
        screen.clear();
        let stopped = stage.far.stop().await;
        let findings = findings?;
        stopped?;
        Ok(findings)
    }

    fn tell(&self, findings: &[Findings], seconds: f64) -> anyhow::Result<bool> {
        let missing: Vec<&String> = findings.iter().flat_map(|part| &part.missing).collect();
        if self.json {
            let mut document = Map::new();
            document.insert("passed".into(), missing.is_empty().into());
            document.insert("seconds".into(), seconds.into());
            document.insert("seed".into(), self.seed.into());
            document.insert("missing".into(), json!(missing));
            document.extend(findings.iter().map(|part| (part.name.to_owned(), part.figures.clone())));
            print_line(format_args!("{}", serde_json::to_string_pretty(&Value::Object(document))?))?;
        } else {
            print_line(format_args!("\n{}\n", table(findings)))?;
            match missing.is_empty() {
                true => print_line(format_args!("Everything arrived that should have, in {seconds:.0} s."))?,
                false => missing.iter().for_each(|missing| note(format_args!("MISSING: {missing}"))),
            }
        }
        Ok(missing.is_empty())
    }
}

async fn play(stage: &Stage) -> anyhow::Result<Vec<Findings>> {
    Ok(vec![
        file::play(stage).await?,
        positions::play(stage).await?,
        urgent::play(stage).await?,
        rebinding::play(stage).await?,
    ])
}
