//! Registration: one list makes the tests of every adapter and the index.

use crate::Fixture;

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Module, named as the port.
    pub port: &'static str,
    /// The claim.
    pub name: &'static str,
    /// The capability without which it cannot be shown.
    pub needs: Option<&'static str>,
}

/// How many cases `F` skips, by capability.
pub fn skipped<F: Fixture>() -> Vec<(&'static str, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for needs in INDEX.iter().filter_map(|case| case.needs).filter(|needs| !F::capabilities().has(needs)) {
        *counts.entry(needs).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// Runs one case on a fixture of its own. For [`contract!`](crate::contract).
#[expect(clippy::print_stderr, reason = "a skipped case says why where the test's output goes")]
pub fn run_case<F: Fixture>(case: Case, body: impl AsyncFnOnce(&F)) {
    if let Some(needs) = case.needs.filter(|needs| !F::capabilities().has(needs)) {
        eprintln!("skipped {}::{}: this store has no `{needs}`", case.port, case.name);
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for one case");
    runtime.block_on(async { body(&F::fresh().await).await });
}

/// Registers every case for a fixture: one test each, in modules named as the ports, and one that pins how many there are and how many
/// are skipped for want of which capability.
#[macro_export]
macro_rules! contract {
    ($fixture:ty, cases = $cases:expr) => { $crate::contract!($fixture, cases = $cases, skipped = []); };
    ($fixture:ty, cases = $cases:expr, skipped = [$($skipped:expr),* $(,)?]) => {
        mod contract {
            use super::*;

            $crate::__every_case! { __tests ($fixture) }

            #[test]
            fn number_of_cases_is_pinned() {
                assert_eq!($crate::INDEX.len(), $cases, "cases registered");
                let expected: Vec<(&str, usize)> = vec![$($skipped),*];
                assert_eq!($crate::skipped::<$fixture>(), expected, "cases skipped, by capability");
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    (($fixture:ty) $($port:ident { $($case:ident $(if $needs:ident)?,)* })*) => {
        $(mod $port {
            use super::*;
            $(
                #[test]
                fn $case() {
                    let needs: &[&'static str] = &[$(stringify!($needs))?];
                    let case = $crate::Case { port: stringify!($port), name: stringify!($case), needs: needs.first().copied() };
                    $crate::run_case::<$fixture>(case, $crate::cases::$port::$case);
                }
            )*
        })*
    };
}

/// The list. Each name is a function of [`crate::cases`].
#[doc(hidden)]
#[macro_export]
macro_rules! __every_case {
    ($then:ident $args:tt) => {
        $crate::$then! {
            $args
            runs {
                a_run_is_won_by_one,
                an_attempt_is_won_by_one,
                a_retry_policy_is_won_by_one,
                a_compare_and_set_of_nothing_is_lost,
                a_version_that_skips_is_refused_before_anything,
                a_transition_writes_run_attempt_and_event,
                a_transition_writes_policy_and_next_attempt,
                a_transition_that_loses_leaves_nothing_and_the_transaction_goes_on,
                a_transition_with_a_known_event_is_refused_whole,
                of_two_handles_one_wins_a_transition,
                an_integer_out_of_range_is_corrupt if corruptible,
                an_unknown_word_is_corrupt if corruptible,
                a_payload_that_is_no_object_is_corrupt if corruptible,
                two_rows_where_one_is_expected_are_corrupt if corruptible,
                an_admission_is_read_back_as_it_was_written,
                every_field_survives,
                what_is_not_there_is_none,
                the_latest_attempt_is_the_one_with_the_highest_number,
                events_are_paged_by_sequence,
                event_pages_are_bounded,
                cancellations_are_paged_oldest_request_first,
                cancellation_pages_are_bounded,
                an_idempotency_key_is_unique_in_its_project,
                an_attempt_number_is_unique_in_its_run,
                an_event_sequence_is_unique_in_its_run,
                an_event_dedupe_key_is_unique_in_its_run,
                any_other_integrity_rule_is_a_constraint,
                payloads_are_kept_value_for_value,
                a_failed_work_leaves_nothing_behind,
                work_runs_exactly_once_and_answers,
                a_transaction_sees_its_own_writes,
                nobody_sees_what_is_not_committed,
                two_transactions_at_once_lose_no_update,
                a_transaction_reads_the_authoritys_clock,
                a_transaction_that_is_dropped_is_rolled_back,
                a_transaction_that_is_dropped_anywhere_is_whole_or_absent,
            }
            schedules {
                a_fresh_trigger_is_initialised,
                a_trigger_is_claimed_from_the_instant_it_is_due,
                one_observation_stamps_the_page,
                a_candidate_shows_current_revisions,
                claims_come_by_due_time_then_project_then_trigger,
                a_claim_keeps_others_out_until_it_expires,
                two_handles_never_hold_the_same_trigger if shared_claims,
                claim_pages_and_leases_are_bounded,
                a_page_goes_on_with_the_same_token,
                rows_without_a_cursor_take_a_quarter_while_others_are_due,
                rows_without_a_cursor_fill_the_page_when_nothing_is_due,
                what_rests_is_not_claimed,
                below_the_mark_nothing_is_claimed,
                looking_does_not_raise_the_mark,
                an_unfinished_run_is_looked_up_where_the_policy_skips_overlaps,
                a_released_claim_is_free_at_once_and_worth_nothing,
                an_expired_claim_is_not_released,
                an_edit_frees_a_claimed_trigger,
                an_occurrence_becomes_a_run,
                each_occurrence_is_admitted_once,
                every_commit_of_a_page_has_its_own_outcome,
                a_clock_before_the_acquisition_fails_the_page,
                a_repeated_commit_admits_nothing_twice,
                an_occurrence_that_was_admitted_before_moves_only_the_cursor,
                a_key_with_other_facts_sets_its_trigger_aside,
                an_exhausted_trigger_is_set_aside_after_its_last_occurrence,
                a_set_aside_trigger_delays_nobody_and_an_edit_revives_it,
                after_an_outage_every_occurrence_is_admitted_or_recorded,
                a_misfire_follows_the_policy,
                an_open_stretch_is_extended_not_repeated,
                a_stretch_is_not_extended_across_an_admission,
                a_stretch_is_not_extended_across_a_revision,
                a_count_is_capped_and_says_so,
                an_overlap_is_recorded_with_the_run_in_the_way,
                an_overlap_is_admitted_where_the_policy_allows_it,
                a_cursor_never_goes_back,
                an_expired_claim_is_raced,
                a_claim_is_good_until_its_expiry,
                a_claim_of_an_edited_trigger_is_raced,
                a_claim_of_a_trigger_edited_there_and_back_is_raced,
                a_claim_of_a_paused_trigger_is_raced,
                a_claim_from_before_a_pause_is_raced_after_the_resume,
                a_claim_of_an_archived_trigger_is_raced,
                a_claim_of_an_archived_task_is_raced,
                a_claim_of_a_disabled_trigger_is_raced,
                a_claim_of_an_edited_task_is_raced,
                a_claim_of_a_disabled_task_is_raced,
                a_claim_that_was_taken_over_is_raced,
                a_claim_that_was_released_is_raced,
                a_claim_that_differs_in_any_field_is_raced,
                acting_on_an_old_claim_admits_nothing,
                an_owner_of_the_same_name_is_another_owner,
                a_commit_that_waited_beyond_its_lease_is_raced,
                new_zone_data_moves_cursors_in_the_future_once,
                the_same_zone_data_changes_nothing,
                new_zone_data_is_taken_over_in_pages,
            }
            definitions {
                an_edit_does_not_fire_the_past,
                what_an_edit_supersedes_is_recorded,
                an_edit_does_not_double_an_occurrence,
                an_occurrence_in_the_instant_of_an_edit_belongs_to_the_new_revision,
                an_archive_records_what_was_due,
                a_disabled_trigger_owes_nothing,
                a_trigger_of_a_disabled_task_owes_nothing,
                an_edit_of_a_task_keeps_what_is_due,
                a_resume_does_not_fire_the_past,
                a_resume_may_make_up_for_the_latest,
                an_edit_while_paused_keeps_the_pause,
                of_many_missed_occurrences_one_is_made_up_for,
                a_resume_that_missed_nothing_makes_up_for_nothing,
                a_resume_respects_the_overlap_policy,
                a_resume_of_a_resting_trigger_makes_up_for_nothing,
                pausing_twice_changes_nothing,
                applying_a_file_never_touches_a_pause,
                a_pause_records_what_was_due,
                pausing_what_is_not_there_is_not_found,
                a_pause_and_a_resume_are_acts,
                a_first_publish_creates_everything,
                the_same_set_again_changes_nothing,
                a_dry_run_answers_the_same_and_writes_nothing,
                an_invalid_set_is_refused_whole,
                an_edit_makes_a_revision_and_keeps_the_one_before,
                revision_numbers_never_restart,
                what_is_absent_is_archived_only_where_the_set_is_the_project,
                archiving_a_task_takes_its_triggers,
                archiving_a_trigger_leaves_its_task,
                archiving_what_is_not_there_archives_nothing,
                an_act_is_recorded_where_something_changed,
                an_operator_is_checked,
                projects_do_not_touch_each_other,
            }
            dispatch {
                a_lease_is_a_run_that_is_being_dispatched,
                runs_are_leased_by_priority_then_waiting_time_then_id,
                a_lease_brings_the_revision_that_the_run_pins,
                a_task_at_its_limit_is_passed_over,
                a_limit_is_the_current_one,
                a_replay_answers_with_the_same_leases,
                a_replay_is_the_sessions_own,
                an_expired_lease_is_not_replayed,
                dispatch_slots_and_leases_are_bounded,
                a_cancelled_run_is_not_leased,
                two_workers_never_lease_the_same_run,
                a_due_retry_is_queued_and_leased,
                a_retry_waits_behind_those_that_waited_before_it,
                a_claim_that_waited_leases_from_the_end_of_the_wait,
                below_the_mark_nothing_is_leased_extended_or_expired,
                a_session_has_a_generation_of_its_own,
                an_earlier_session_gets_no_work,
                a_session_with_leases_is_not_closed,
                a_result_ends_attempt_and_run,
                a_result_is_applied_once,
                a_failure_without_attempts_left_fails_the_run,
                failures_are_retried_with_backoff_until_attempts_run_out,
                a_timeout_is_retried_like_a_failure_and_ends_as_a_timeout,
                an_attempt_may_fail_before_it_runs,
                a_result_after_a_request_to_cancel_is_final,
                a_result_is_accepted_until_the_expiry_is_committed,
                a_late_result_is_recorded_once,
                a_late_result_does_not_touch_the_next_attempt,
                a_long_summary_is_cut,
                a_started_attempt_is_running,
                starting_twice_changes_nothing,
                a_lease_is_good_until_its_expiry,
                a_renewal_extends_the_lease,
                a_renewal_tells_what_is_lost_and_what_is_cancelled,
                a_fence_that_differs_in_anything_is_stale,
                a_cancelled_run_does_not_start,
                a_released_attempt_waits_again,
                a_running_attempt_is_not_released,
                a_cancelled_run_ends_when_it_is_released,
                a_renewal_that_waited_beyond_its_lease_has_lost_it,
                an_expired_lease_loses_its_attempt,
                a_lost_attempt_is_retried_where_that_is_safe,
                a_lost_attempt_is_not_retried_where_nobody_promised,
                a_lost_attempt_of_a_cancelled_run_cancels_it,
                expiry_goes_by_pages,
                a_restarted_worker_sees_its_earlier_leases,
                an_attempt_that_never_started_waits_again,
                an_attempt_that_ended_meanwhile_has_its_result,
                an_attempt_that_is_gone_is_lost,
                a_cancelled_run_ends_when_it_is_settled,
                a_lease_is_settled_once_and_only_by_a_later_session,
                a_result_after_recovery_is_late,
            }
            control {
                a_start_admits_a_run_of_the_current_revision,
                a_start_with_a_known_key_answers_with_the_first_run,
                a_key_of_another_task_is_refused,
                two_starts_at_once_with_one_key_make_one_run,
                a_start_that_cannot_be_is_refused,
                a_waiting_run_is_cancelled_at_once,
                a_run_that_waits_for_its_retry_is_cancelled_at_once,
                a_held_run_is_asked_to_end,
                a_run_that_has_ended_is_not_cancelled,
                a_retry_is_a_new_run_of_the_same_revision,
                a_run_that_has_not_ended_is_not_retried,
                an_accepted_clock_is_the_mark,
                a_claim_from_before_an_accepted_clock_is_not_committed,
                what_a_wrong_clock_admitted_is_not_admitted_again,
                an_empty_store_has_no_mark,
                acts_are_listed_newest_first,
            }
            history {
                runs_are_paged_newest_first_while_others_arrive,
                the_last_page_says_that_it_is_the_last,
                runs_are_filtered,
                lists_are_bounded,
                attempts_are_counted_and_listed,
                tasks_and_triggers_are_listed_with_their_newest_run,
                a_trigger_is_found_also_when_it_is_archived,
                the_ledger_is_read_newest_first,
                the_overview_counts,
                occurrences_are_found_by_their_time,
                run_ids_are_walked_in_order,
                all_triggers_are_walked_in_order,
                the_text_of_a_revision_fits_its_digest,
                an_eventful_day_verifies,
            }
            instants {
                an_admitted_instant_has_its_run,
                an_instant_ahead_is_not_due_and_a_due_one_is_not_lost,
                a_recorded_instant_has_its_reason,
                an_instant_is_judged_by_the_revision_of_its_time,
                a_paused_instant_names_who_paused,
                a_resting_instant_names_the_revision_that_rested,
                what_is_no_occurrence_has_neighbours,
                an_instant_is_its_triggers_own,
                every_instant_of_an_eventful_day_is_explained,
            }
            retention {
                a_finished_run_goes_whole,
                what_is_unfinished_or_young_stays,
                an_instant_ahead_counts_as_now,
                a_run_that_is_referred_to_goes_with_what_refers_to_it,
                a_dry_run_of_a_prune_writes_nothing,
                pruning_goes_by_pages,
                a_prune_is_an_act,
                the_ledger_goes_by_age,
                no_occurrence_is_admitted_again_after_all_history_is_gone,
                a_prune_ends_where_it_was_asked_to,
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __index {
    (() $($port:ident { $($case:ident $(if $needs:ident)?,)* })*) => {
        /// Every case, in the order of the list.
        pub const INDEX: &[Case] = &[$($({
            let needs: &[&'static str] = &[$(stringify!($needs))?];
            Case { port: stringify!($port), name: stringify!($case), needs: needs.first().copied() }
        },)*)*];
    };
}

__every_case! { __index () }

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// A case that nobody runs shows nothing: every public function of the cases is in the list, under the port whose file it stands in.
    #[test]
    fn every_case_is_in_the_list() {
        let mut written = Vec::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cases");
        for port in ["runs", "schedules", "definitions", "dispatch", "control", "history", "instants", "retention"] {
            let parts = fs::read_dir(folder.join(port)).into_iter().flatten().map(|entry| entry.unwrap().path());
            for file in parts.chain([folder.join(port).with_extension("rs")]) {
                let text = fs::read_to_string(file).unwrap();
                let names = text.split("\npub async fn ").skip(1).map(|rest| rest.split('(').next().unwrap_or_default());
                written.extend(names.map(|name| format!("{port}::{name}")));
            }
        }
        let mut listed: Vec<String> = INDEX.iter().map(|case| format!("{}::{}", case.port, case.name)).collect();
        written.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, written);
    }
}
