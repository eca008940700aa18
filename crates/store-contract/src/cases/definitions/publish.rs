//! Revisions: what a publish and an archive change.

use runtime_core::{
    definition::{Change, DefinitionKey, DefinitionKind, TaskSpec, TriggerSpec},
    ids::ProjectId,
    ports::definitions::{Operator, PublishCommand, Published},
};

use super::super::kit::{assert_unchanged, code, operator, project, set, task, task_id, today, trigger, trigger_id, world};
use crate::{Fixture, start};

fn summary(published: &Published) -> Vec<String> {
    published.changes.iter().map(|c| format!("{} {} {} {}", c.key.kind.as_str(), c.key.id, c.change.as_str(), c.revision)).collect()
}

fn key(kind: DefinitionKind, id: &str) -> DefinitionKey {
    DefinitionKey { kind, id: id.to_owned() }
}

fn timer() -> TriggerSpec {
    trigger("t", "a", "* * * * *")
}

pub async fn a_first_publish_creates_everything(fixture: &impl Fixture) {
    let w = world(fixture);
    let published = w.publish(vec![task("b"), task("a")], vec![timer()]).await;
    assert_eq!(summary(&published), ["task a created 1", "task b created 1", "trigger t created 1"]);
    assert_eq!((published.at, published.ledger), (start(), vec![]));
    let heads = w.store.heads(&project()).await.unwrap();
    assert_eq!(heads.tasks.keys().map(runtime_core::ids::TaskId::as_str).collect::<Vec<_>>(), ["a", "b"]);
    let head = &heads.triggers[&trigger_id("t")];
    assert_eq!((head.revision, &head.digest, head.archived, head.created_at), (1, &timer().digest(), false, start()));
    assert_eq!(head.spec, timer());
    let row = w.row("t").await;
    assert_eq!((row.trigger_revision, row.activated_at, row.next_fire_at, row.paused, row.set_aside), (1, start(), None, None, None));
    assert_eq!(w.store.task_revision(&project(), &task_id("a"), 1).await.unwrap(), Some(task("a")));
}

/// Applying the same content again creates nothing: no revision, no activation, no act.
pub async fn the_same_set_again_changes_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    w.cycle().await;
    let before = fixture.dump().await;
    w.until("12:00:50").await;
    let published = w.publish(vec![task("a")], vec![timer()]).await;
    assert_eq!(summary(&published), ["task a unchanged 1", "trigger t unchanged 1"]);
    assert_unchanged!(fixture, before);
}

/// A rehearsal answers what the performance will answer, the ledger included, and writes nothing.
pub async fn a_dry_run_answers_the_same_and_writes_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a"), task("gone")], vec![timer(), trigger("old", "gone", "* * * * *")]).await;
    w.cycle().await;
    w.until("12:03:30").await;
    let before = fixture.dump().await;
    let changed =
        set(vec![TaskSpec { priority: 3, ..task("a") }], vec![trigger("t", "a", "*/5 * * * *"), trigger("new", "a", "* * * * *")]);
    let rehearsed = w.store.publish(&PublishCommand { dry_run: true, ..changed.clone() }).await.unwrap();
    assert_unchanged!(fixture, before);
    let performed = w.store.publish(&changed).await.unwrap();
    assert_eq!(performed, rehearsed);
    let expected = ["task a updated 2", "task gone archived 2", "trigger new created 1", "trigger old archived 2", "trigger t updated 2"];
    assert_eq!(summary(&performed), expected);
    assert_eq!(performed.ledger.iter().map(|e| e.trigger_id.as_str()).collect::<Vec<_>>(), ["old", "t"]);
}

/// One bad definition refuses all of them.
pub async fn an_invalid_set_is_refused_whole(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    let before = fixture.dump().await;
    let good = || vec![task("a"), task("new")];
    let never = TriggerSpec { cron: "0 0 30 2 *".into(), ..timer() };
    let nowhere = TriggerSpec { timezone: "Mars/Base".into(), ..timer() };
    let sets = [
        set(good(), vec![timer(), trigger("u", "absent", "* * * * *")]),
        set(good(), vec![timer(), timer()]),
        set(good(), vec![never]),
        set(good(), vec![nowhere]),
        set([good(), good()].concat(), vec![]),
        set(vec![task("new"), TaskSpec { priority: 1_001, ..task("a") }], vec![timer()]),
    ];
    for set in &sets {
        assert_eq!(code(w.store.publish(set).await), "invalid_input", "{set:?}");
        assert_unchanged!(fixture, before);
    }
}

/// Revisions are immutable: what a Run pins stays readable.
pub async fn an_edit_makes_a_revision_and_keeps_the_one_before(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    w.until("12:10").await;
    let edited = TaskSpec { priority: 9, ..task("a") };
    let published = w.publish(vec![edited.clone()], vec![timer()]).await;
    assert_eq!(summary(&published), ["task a updated 2", "trigger t unchanged 1"]);
    let Change::Updated(fields) = &published.changes[0].change else { panic!("{published:?}") };
    assert_eq!(fields[..], [("priority".to_owned(), "0".to_owned(), "9".to_owned())]);
    let read = async |revision| w.store.task_revision(&project(), &task_id("a"), revision).await.unwrap();
    assert_eq!([read(1).await, read(2).await, read(3).await], [Some(task("a")), Some(edited), None]);
    assert_eq!(w.store.heads(&project()).await.unwrap().tasks[&task_id("a")].created_at, today("12:10"));
}

/// A tombstone is a revision, and what comes after it has the next number.
pub async fn revision_numbers_never_restart(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    assert_eq!(summary(&w.publish(vec![], vec![]).await), ["task a archived 2", "trigger t archived 2"]);
    let heads = w.store.heads(&project()).await.unwrap();
    assert!(heads.tasks[&task_id("a")].archived && heads.triggers[&trigger_id("t")].archived, "heads include tombstones");
    assert_eq!(heads.triggers[&trigger_id("t")].spec, timer(), "a tombstone shows what it buried");
    assert_eq!(summary(&w.publish(vec![task("a")], vec![timer()]).await), ["task a created 3", "trigger t created 3"]);
    assert_eq!(w.row("t").await.trigger_revision, 3);
}

/// A file owns its project; a single definition does not.
pub async fn what_is_absent_is_archived_only_where_the_set_is_the_project(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a"), task("b")], vec![timer(), trigger("u", "b", "* * * * *")]).await;
    let part = PublishCommand { archive_absent: false, ..set(vec![TaskSpec { priority: 1, ..task("b") }], vec![]) };
    assert_eq!(summary(&w.store.publish(&part).await.unwrap()), ["task b updated 2"]);
    let trigger_alone = PublishCommand { archive_absent: false, ..set(vec![], vec![trigger("v", "a", "* * * * *")]) };
    assert_eq!(summary(&w.store.publish(&trigger_alone).await.unwrap()), ["trigger v created 1"]);
    let whole = w.publish(vec![task("a")], vec![timer()]).await;
    assert_eq!(
        summary(&whole),
        ["task a unchanged 1", "task b archived 3", "trigger t unchanged 1", "trigger u archived 2", "trigger v archived 2"]
    );
}

pub async fn archiving_a_task_takes_its_triggers(fixture: &impl Fixture) {
    let w = world(fixture);
    let triggers = vec![timer(), trigger("u", "b", "* * * * *"), trigger("v", "a", "* * * * *")];
    w.publish(vec![task("a"), task("b")], triggers).await;
    w.cycle().await;
    w.until("12:01").await;
    let archived = w.store.archive(&project(), &[key(DefinitionKind::Task, "a")], &operator()).await.unwrap();
    assert_eq!(summary(&archived), ["task a archived 2", "trigger t archived 2", "trigger v archived 2"]);
    assert_eq!(archived.ledger.len(), 2);
    let left = w.admitted().await;
    assert_eq!(left.len(), 1);
    assert_eq!(w.store.run(left[0]).await.unwrap().unwrap().trigger_id, Some(trigger_id("u")));
}

pub async fn archiving_a_trigger_leaves_its_task(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    let archived = w.store.archive(&project(), &[key(DefinitionKind::Trigger, "t")], &operator()).await.unwrap();
    assert_eq!(summary(&archived), ["trigger t archived 2"]);
    assert!(!w.store.heads(&project()).await.unwrap().tasks[&task_id("a")].archived);
    assert!(w.item("t").await.head.archived);
}

/// One unknown or archived key, and nothing is archived.
pub async fn archiving_what_is_not_there_archives_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a"), task("gone")], vec![timer()]).await;
    w.publish(vec![task("a")], vec![timer()]).await;
    let before = fixture.dump().await;
    for bad in [key(DefinitionKind::Task, "absent"), key(DefinitionKind::Task, "gone"), key(DefinitionKind::Trigger, "a")] {
        let keys = [key(DefinitionKind::Trigger, "t"), bad];
        assert_eq!(code(w.store.archive(&project(), &keys, &operator()).await), "not_found");
        assert_unchanged!(fixture, before);
    }
}

/// Who did what and when, newest first; what changed nothing is no act.
pub async fn an_act_is_recorded_where_something_changed(fixture: &impl Fixture) {
    let w = world(fixture);
    let by = Operator { name: "grace".into(), reason: Some("ticket 17".into()) };
    let apply = PublishCommand { by: by.clone(), ..set(vec![task("a")], vec![timer()]) };
    w.store.publish(&apply).await.unwrap();
    w.until("12:01").await;
    w.store.publish(&apply).await.unwrap();
    w.store.publish(&PublishCommand { dry_run: true, ..set(vec![], vec![]) }).await.unwrap();
    w.store.archive(&project(), &[key(DefinitionKind::Trigger, "t")], &operator()).await.unwrap();
    let acts = w.store.acts(500).await.unwrap();
    let seen: Vec<_> = acts.iter().map(|act| (act.act.as_str(), act.at, &act.by, act.project_id.clone())).collect();
    assert_eq!(seen, [("archive", today("12:01"), &operator(), Some(project())), ("apply", start(), &by, Some(project()))]);
}

/// Nobody changes anything without a name; a reason has a bound.
pub async fn an_operator_is_checked(fixture: &impl Fixture) {
    let w = world(fixture);
    let before = fixture.dump().await;
    let nobody = Operator { name: String::new(), reason: None };
    let talker = Operator { reason: Some("x".repeat(1_025)), ..operator() };
    for by in [nobody, talker] {
        let apply = PublishCommand { by: by.clone(), ..set(vec![task("a")], vec![]) };
        assert_eq!(code(w.store.publish(&apply).await), "invalid_input");
        assert_eq!(code(w.store.archive(&project(), &[], &by).await), "invalid_input");
    }
    assert_unchanged!(fixture, before);
}

/// The same names in another project are other definitions.
pub async fn projects_do_not_touch_each_other(fixture: &impl Fixture) {
    let w = world(fixture);
    let other = ProjectId::new("other").unwrap();
    w.publish(vec![task("a")], vec![timer()]).await;
    let theirs = set(vec![TaskSpec { priority: 2, ..task("a") }], vec![timer()]);
    w.store.publish(&PublishCommand { project_id: other.clone(), ..theirs }).await.unwrap();
    w.publish(vec![], vec![]).await;
    let heads = w.store.heads(&other).await.unwrap();
    assert_eq!((heads.tasks[&task_id("a")].revision, heads.tasks[&task_id("a")].archived), (1, false));
    assert_eq!(w.claim(16).await.claims.iter().map(|c| c.candidate.project_id.as_str()).collect::<Vec<_>>(), ["other"]);
    assert!(w.store.heads(&ProjectId::new("empty").unwrap()).await.unwrap().tasks.is_empty());
}
