//! Everything that a store holds, as text that does not depend on the adapter.

use runtime_core::{
    TimestampMs,
    ids::ProjectId,
    limits::LIST_PAGE_MAX,
    payload::Payload,
    ports::{control::OperatorAct, history::TriggerItem},
    run::{Run, RunAttempt, RunEvent},
    schedule::ScheduleRow,
};

use crate::Store;

/// The durable facts of `store`, read through its ports, in a stable order. Left out is what adapters may do differently: claims and
/// their versions, and texts for people.
pub async fn facts(store: &dyn Store) -> Vec<String> {
    let mut out = Vec::new();
    let mut projects = std::collections::BTreeSet::new();
    runs(store, &mut out, &mut projects).await;
    triggers(store, &mut out, &mut projects).await;
    for project in &projects {
        let heads = store.heads(project).await.expect("heads are readable");
        out.extend(heads.tasks.values().map(|head| format!("{head:?}")));
    }
    let acts = store.acts(LIST_PAGE_MAX).await.expect("acts are readable");
    out.extend(acts.into_iter().map(|OperatorAct { at, by, act, project_id, .. }| format!("act {at} {by:?} {act} {project_id:?}")));
    out.push(format!("mark {:?}", store.clock_mark().await.expect("the mark is readable")));
    out.push(format!("pruned before {:?}", store.pruned_before().await.expect("it is readable")));
    out
}

fn without_texts(payload: &Payload) -> Payload {
    let mut value = payload.to_value();
    if let Some(object) = value.as_object_mut() {
        object.retain(|key, _| !matches!(key.as_str(), "summary" | "released"));
    }
    Payload::from_value(&value).expect("less of a payload is a payload")
}

async fn runs(store: &dyn Store, out: &mut Vec<String>, projects: &mut std::collections::BTreeSet<ProjectId>) {
    let mut after = None;
    loop {
        let ids = store.run_ids(after, LIST_PAGE_MAX).await.expect("ids are readable");
        let Some(last) = ids.last() else { break };
        after = Some(*last);
        for id in ids {
            let facts = store.facts(id).await.expect("a Run is readable").expect("a listed Run is there");
            projects.insert(facts.run.project_id.clone());
            out.push(format!("{:?}", Run { error_summary: None, ..facts.run }));
            out.extend(facts.attempts.into_iter().map(|attempt| format!("{:?}", RunAttempt { error_summary: None, ..attempt })));
            out.push(format!("{:?}", facts.policy));
            out.extend(facts.events.into_iter().map(|event| format!("{:?}", RunEvent { payload: without_texts(&event.payload), ..event })));
        }
    }
}

async fn triggers(store: &dyn Store, out: &mut Vec<String>, projects: &mut std::collections::BTreeSet<ProjectId>) {
    let mut items: Vec<TriggerItem> = Vec::new();
    loop {
        let after = items.last().map(|item| (&item.head.project_id, &item.head.spec.id));
        let page = store.all_triggers(after, LIST_PAGE_MAX).await.expect("triggers are readable");
        if page.is_empty() {
            break;
        }
        items.extend(page);
    }
    for item in items {
        let (project, trigger) = (&item.head.project_id, &item.head.spec.id);
        projects.insert(project.clone());
        let ledger = store.ledger(project, trigger, TimestampMs::EPOCH, LIST_PAGE_MAX).await.expect("the ledger is readable");
        let schedule = ScheduleRow { claim_version: 0, ..item.schedule.clone() };
        out.push(format!("{:?} {schedule:?} task live {} last {:?}", item.head, item.task_live, item.last_run));
        out.extend(ledger.iter().map(|entry| format!("{entry:?}")));
    }
}
