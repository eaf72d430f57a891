//! Tests of the trials that a run makes, of their order, and of where their samples are kept.

use std::collections::BTreeSet;

use super::*;

fn run(experiments: &[&str]) -> Run {
    let experiments = experiments.iter().map(|name| (*name).to_owned()).collect();
    Run { experiments, seed: 1, parallel: 12, ..Run::default() }
}

fn tasks(run: &Run) -> Vec<Task> {
    run.tasks(&run.chosen().unwrap()).unwrap().0
}

#[test]
fn trials_are_interleaved_peer_by_peer() {
    let run =
        Run { trials: Some(3), peers: vec!["whimbrel".into(), "udp".into()], ..run(&["message-latency"]) };
    let tasks: Vec<_> = tasks(&run).into_iter().filter(|task| task.case.condition == "5 % loss").collect();
    let order: Vec<_> = tasks.iter().map(|task| (task.trial, task.case.peer.as_str(), task.seed)).collect();
    let expected = [
        (1, "whimbrel", 1),
        (1, "udp", 1),
        (2, "whimbrel", 2),
        (2, "udp", 2),
        (3, "whimbrel", 3),
        (3, "udp", 3),
    ];
    assert_eq!(order, expected, "A B A B, with the same seed for all peers of a trial");
}

#[test]
fn what_needs_whole_processors_comes_last() {
    let tasks = tasks(&run(&["mmsp-table42", "fairness"]));
    let first = tasks.iter().position(|task| task.case.cost == Cost::Heavy).unwrap();
    assert!(tasks[first..].iter().all(|task| task.case.cost == Cost::Heavy));
    assert!(tasks[..first].iter().any(|task| task.experiment.name() == "mmsp-table42"));
}

#[test]
fn a_run_that_is_not_whole_stands_apart() {
    let part = |run: Run| assert_eq!(run.shelf(), Shelf::Part);
    part(Run { peers: vec!["whimbrel".into()], ..run(&["all"]) });
    part(Run { trials: Some(4), ..run(&["all"]) });
    part(Run { time: Some(2.0), ..run(&["fairness"]) });
    assert_eq!(run(&["all"]).shelf(), Shelf::Whole);
    assert_eq!(Run { trials: Some(5), ..run(&["fairness"]) }.shelf(), Shelf::Whole);
    assert_eq!(Run { trials: Some(4), replace: true, ..run(&["all"]) }.shelf(), Shelf::Whole);
    assert_eq!(Run { time: Some(1.0), ..run(&["quick"]) }.shelf(), Shelf::Quick);
}

#[test]
fn a_quick_run_takes_less_than_five_minutes() {
    // With every peer, whatever is installed here.
    let run = run(&["quick"]);
    let experiments = run.chosen().unwrap();
    let tasks = run.tasks_of(&experiments, &run.cases(&experiments), |_| true);
    let seconds = session::seconds(&tasks, 12);
    let mut shares = std::collections::BTreeMap::<_, Vec<Task>>::new();
    tasks.into_iter().for_each(|task| shares.entry(task.experiment.name()).or_default().push(task));
    let shares: Vec<_> =
        shares.iter().map(|(name, tasks)| format!("{name} {:.1}", session::seconds(tasks, 12))).collect();
    assert!(seconds < 270.0, "{seconds} s, plus the start of each trial: {}", shares.join(", "));
}

#[test]
fn only_who_has_a_part_is_missed() {
    let missed = |name: &str| {
        let run = run(&[name]);
        run.tasks(&run.chosen().unwrap()).unwrap().1
    };
    assert!(missed("loopback").is_empty());
    let rattan = missed("cross-check");
    assert_eq!(rattan.len(), usize::from(crate::testbed::rattan::missing().is_some()), "{rattan:?}");
    assert!(
        rattan.iter().all(|gap| gap.contains("rattan is not here: rattan is not installed: `cargo install"))
    );
}

#[test]
fn an_experiment_and_a_peer_have_to_be_known() {
    let unknown = run(&["fairnes"]).chosen().map(|_| ()).unwrap_err().to_string();
    assert!(unknown.contains("`fairnes`") && unknown.contains("fairness"), "{unknown}");
    let run = Run { peers: vec!["tpc".into()], ..run(&["fairness"]) };
    assert!(run.tasks(&run.chosen().unwrap()).map(|_| ()).unwrap_err().to_string().contains("`tpc`"));
}

#[test]
fn every_experiment_has_a_name_and_every_case_a_row_of_its_own() {
    let names: BTreeSet<_> = experiment::all().iter().map(|one| one.name()).collect();
    assert_eq!(names.len(), experiment::all().len());
    for quick in [false, true] {
        for one in experiment::all() {
            let cases = one.cases(&Options { quick, seconds: None });
            let rows: BTreeSet<_> = cases.iter().map(|case| (&case.condition, &case.peer)).collect();
            assert_eq!(rows.len(), cases.len(), "{}", one.name());
            assert!(!rows.is_empty(), "{}", one.name());
        }
    }
}
