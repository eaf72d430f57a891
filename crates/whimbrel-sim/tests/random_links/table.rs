//! The results of many draws, as text.

use std::fmt;

use whimbrel_link::Class;

use super::trial::Trial;

/// The quantiles that are shown.
const QUANTILES: [(&str, f64); 6] =
    [("least", 0.0), ("5 %", 0.05), ("25 %", 0.25), ("median", 0.5), ("95 %", 0.95), ("most", 1.0)];
/// The draws that are shown by themselves.
const WORST: usize = 10;

pub(crate) struct Table(pub(crate) Vec<Trial>);

/// Figures in ascending order.
struct Figures(Vec<f64>);

impl Figures {
    fn new(figures: impl Iterator<Item = f64>) -> Self {
        let mut figures: Vec<_> = figures.collect();
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }

    fn at(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1) as f64;
        self.0.get((last * share).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

impl Table {
    fn row(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        figure: impl Fn(&Trial) -> Option<f64>,
    ) -> fmt::Result {
        let figures = Figures::new(self.0.iter().filter_map(figure));
        write!(f, "{what:<44}{:>6}", figures.0.len())?;
        for (_, share) in QUANTILES {
            write!(f, "{:>9.3}", figures.at(share))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<44}{:>6}", "", "draws")?;
        for (name, _) in QUANTILES {
            write!(f, "{name:>9}")?;
        }
        writeln!(f)?;
        self.row(f, "bulk, share of what the link leaves", |trial| Some(trial.share))?;
        let is_steady = |trial: &&Trial| !trial.has(Class::Policer) && !trial.has(Class::Steps);
        self.row(f, "dropped after 2 s, %: no policer, no steps", |trial| {
            is_steady(&trial).then_some(trial.dropped * 100.0)
        })?;
        self.row(f, "queueing delay / max(round trip, 100 ms)", |trial| {
            let tolerated = trial.drawn.tolerated().as_secs_f64();
            trial.drawn.may_choose().then_some(trial.queued.as_secs_f64() / tolerated)
        })?;
        // The ideal, which doubles from ten packets on, is computed from means, which say nothing of a short time on a link that changes.
        let changes = [Class::Steps, Class::Suspensions, Class::Bursts, Class::Outages, Class::Policer];
        self.row(f, "100 KB from cold, multiple of doubling from 10", |trial| {
            (!changes.iter().any(|class| trial.has(*class))).then_some(trial.transfer)
        })?;
        self.row(f, "messages, 99th percentile, in one-way delays", |trial| trial.late)?;
        writeln!(f, "\nbulk by class")?;
        self.row(f, "plain", |trial| trial.drawn.classes().is_empty().then_some(trial.share))?;
        for (class, _) in Class::ALL {
            self.row(f, &class.to_string(), |trial| trial.has(class).then_some(trial.share))?;
            let alone = [class];
            self.row(f, "  and no other", |trial| (trial.drawn.classes() == alone).then_some(trial.share))?;
        }
        writeln!(f, "\nthe worst in bulk: seed, share, dropped, and the link")?;
        let mut worst: Vec<_> = self.0.iter().collect();
        worst.sort_by(|one, other| one.share.total_cmp(&other.share));
        for trial in worst.iter().take(WORST) {
            writeln!(f, "{:>6} {:.3} {:.3} {}", trial.seed, trial.share, trial.dropped, trial.drawn)?;
        }
        Ok(())
    }
}
