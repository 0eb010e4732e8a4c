//! Every adapter against the contract of its port. The cases in `suite` are functions over the
//! ports and know no technology: an adapter joins with one line. What only one technology can be
//! asked lies beside it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "azure")]
mod azure;
#[cfg(all(feature = "postgres", feature = "nats"))]
mod cancels;
mod clock;
mod damage;
mod embedded;
mod encrypted;
mod folder;
#[cfg(all(feature = "http", feature = "redis"))]
mod http;
mod in_memory;
#[cfg(feature = "postgres")]
mod leases;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod recovery;
mod redis;
#[cfg(feature = "redis")]
mod redis_tls;
#[cfg(feature = "postgres")]
#[cfg(feature = "postgres")]
mod roles;
mod s3;
mod spool;
mod sqlite;
mod step_threads;
mod suite;
mod system;
#[cfg(all(feature = "http", feature = "redis"))]
mod webhooks;

/// Makes a test of each case: opens the fixture, runs the case, and keeps the fixture alive until
/// it has ended.
macro_rules! conformance {
    ($open:path; $($area:ident: $($case:ident),+ $(,)?);+ $(;)?) => {
        $(mod $area {
            $(#[tokio::test]
            async fn $case() {
                let fixture = $open().await;
                crate::suite::$area::$case(&fixture.ports).await;
            })+
        })+
    };
}
pub(crate) use conformance;

/// The cases of a store.
macro_rules! store_cases {
    ($open:path) => {
        crate::row_cases!($open);
        crate::own_table_cases!($open);
        crate::purge_cases!($open);
        crate::purged_log_cases!($open);
        crate::salvage_cases!($open);
    };
}
pub(crate) use store_cases;

/// The cases of purges that need what a reconciler may not do.
macro_rules! purged_log_cases {
    ($open:path) => {
        crate::conformance! { $open;
            purged_logs:
                a_purged_task_leaves_no_row_of_its_log
        }
    };
}
pub(crate) use purged_log_cases;

/// The cases of tables that are the user's own: the role that opens the store must be allowed to
/// make them.
macro_rules! own_table_cases {
    ($open:path) => {
        crate::conformance! { $open;
            own_tables:
                statements_are_written_with_their_change,
                whoever_is_fenced_or_stale_writes_to_no_table,
                a_statement_that_is_refused_takes_all_of_the_change_along,
                a_constraint_that_is_looked_at_last_is_a_refusal_too,
                values_of_every_type_arrive,
                of_many_takers_only_as_many_succeed_as_there_is,
                a_statement_that_reads_has_changed_no_rows
        }
    };
}
pub(crate) use own_table_cases;

/// The cases of deleted tasks: the role that opens the store must be allowed to delete them.
macro_rules! purge_cases {
    ($open:path) => {
        crate::conformance! { $open;
            purges:
                tasks_that_ended_are_found_by_type_state_and_age,
                a_purged_task_leaves_a_tombstone_and_no_row,
                a_task_is_not_purged_before_others_were_told_of_its_end,
                a_task_stays_while_its_key_lives,
                tombstones_are_found_by_their_tasks,
                a_child_is_kept_until_all_tasks_above_it_have_ended;
        }
    };
}
pub(crate) use purge_cases;

/// The cases of tasks that were damaged, which takes more rights than a service has.
macro_rules! salvage_cases {
    ($open:path) => {
        crate::conformance! { $open;
            salvage:
                a_task_of_which_not_all_can_be_read_is_salvaged,
                data_that_are_not_those_of_their_digest_are_refused_for_a_run,
                a_state_is_read_without_what_was_handed_in,
                a_task_with_a_row_of_a_newer_form_is_not_read_in_part,
                a_chain_of_changes_that_is_not_whole_is_named_where_it_breaks
        }
    };
}
pub(crate) use salvage_cases;

/// The cases of the store's own tables.
macro_rules! row_cases {
    ($open:path) => {
        crate::conformance! { $open;
            documents:
                a_document_comes_back_as_it_was_written,
                a_document_changes_only_at_the_expected_revision,
                of_fifty_racing_writers_of_a_document_one_wins,
                what_was_decided_on_a_deleted_document_is_not_written_over_its_successor,
                due_documents_come_in_the_order_of_their_times,
                documents_page_by_name_and_the_last_written_is_the_latest,
                documents_are_written_together_or_not_at_all,
                of_twenty_racing_changes_each_has_its_entry_in_one_chain;
            children:
                children_are_written_with_their_parent_or_not_at_all,
                children_are_counted_and_listed_by_step_state_and_place,
                completed_children_are_in_flight_as_long_as_they_may_be_undone,
                those_above_tasks_are_found_the_topmost_first,
                a_wake_makes_a_sleeping_task_due_and_changes_nothing_else,
                sleeping_tasks_are_found_of_which_a_child_has_ended;
            logs:
                rows_of_a_log_come_back_in_their_order_and_leave_the_task_alone,
                a_row_of_a_log_that_is_written_again_changes_nothing,
                rows_go_once_no_line_of_them_is_needed_and_their_lines_are_counted,
                a_task_that_is_not_there_has_no_log;
            places:
                a_place_is_held_once_until_its_task_gives_it_back,
                of_twenty_racing_claims_of_a_place_one_wins,
                a_submission_whose_place_is_taken_leaves_nothing,
                those_that_wait_stand_in_the_order_of_their_submissions,
                keys_are_counted_page_by_page,
                a_task_that_leaves_its_rest_stands_in_line_where_it_stood,
                a_task_that_sleeps_for_a_place_is_woken;
            labels:
                a_task_keeps_its_labels_and_is_found_by_all_of_them,
                tasks_that_run_one_again_are_found_the_newest_first,
                names_and_values_of_labels_are_read_in_their_order,
                a_list_is_read_from_either_end_and_by_the_ending_of_an_id,
                changes_that_are_written_together_keep_their_labels_apart,
                a_list_by_label_pages_from_the_newest_and_takes_the_other_filters,
                a_list_ends_at_its_times,
                a_failure_is_found_by_its_class_and_by_what_it_says,
                a_search_looks_at_so_many_tasks_and_can_be_gone_on_with;
            commits:
                a_wrong_epoch_is_fenced_and_a_wrong_revision_is_stale,
                a_lease_on_a_task_that_is_not_there_is_fenced,
                a_task_is_inserted_once,
                a_live_lease_cannot_be_taken_and_an_expired_one_can,
                a_holder_may_take_its_own_lease_again,
                a_take_back_needs_a_lease_that_ran_out,
                a_release_clears_the_lease,
                a_record_comes_back_as_it_was_written,
                relative_times_start_from_the_databases_now,
                a_cancel_request_is_set_once_and_stays,
                a_change_whose_last_part_fails_leaves_nothing,
                an_alert_is_written_with_its_change_and_once,
                a_receive_leaves_a_task_that_exists_alone,
                a_row_that_skips_a_revision_is_refused,
                a_heartbeat_prolongs_and_tells_of_a_cancel,
                of_fifty_racing_claims_one_wins_each_task;
            concurrent_changes:
                of_many_submissions_at_once_each_gets_its_own_answer,
                of_many_changes_at_once_each_gets_its_own_answer,
                two_changes_of_one_task_at_once_do_not_both_happen,
                of_many_loads_at_once_each_gets_its_own_task,
                a_change_is_not_lost_when_its_neighbour_goes_away;
            chain:
                a_chain_holds_over_changes_of_one_and_of_many_entries,
                a_link_survives_the_way_through_the_columns,
                of_many_chains_at_once_each_goes_on_from_its_own_end,
                a_change_without_an_entry_is_a_row_too,
                a_change_of_a_task_without_its_row_is_refused,
                a_copy_of_the_ends_tells_whether_they_are_still_there,
                rows_and_heads_page_in_order;
            attempts:
                an_attempt_comes_back_as_it_was_written,
                what_a_sweep_says_of_an_attempt_stands_in_the_record,
                what_did_not_end_well_is_kept_when_somebody_says_so,
                what_a_success_kept_is_swept_after_its_release,
                what_failed_is_swept_and_what_kept_nothing_is_not,
                an_attempt_under_a_live_lease_is_left_alone,
                history_comes_back_in_order;
            receives:
                a_receive_comes_back_as_it_was_begun,
                a_begin_that_is_written_twice_changes_nothing,
                a_submission_takes_its_receive,
                a_submission_of_what_a_sweep_has_condemned_writes_nothing,
                only_a_receive_whose_time_has_come_is_condemned,
                an_abandoned_receive_becomes_no_task_and_is_swept_when_its_time_comes,
                the_key_of_a_receive_goes_with_it,
                a_receive_beside_a_task_that_exists_is_stale,
                the_oldest_receives_come_first;
            batches:
                submissions_are_written_all_or_none,
                a_batch_of_a_thousand_is_one_change_each;
            idempotency:
                a_key_in_progress_belongs_to_its_first_task,
                a_finished_key_gives_its_answer,
                an_abandoned_key_is_free_again,
                an_expired_key_is_free_again,
                keys_of_two_tenants_do_not_meet;
            schedules:
                a_schedule_comes_back_as_it_was_written,
                a_schedule_changes_only_from_the_revision_that_was_read,
                due_schedules_are_those_that_this_program_may_fire,
                schedules_page_by_name_within_their_tenant,
                due_schedules_go_on_behind_the_last_of_a_page,
                a_due_time_and_its_task_are_written_together_or_not_at_all,
                of_fifty_racing_firings_one_happens;
            upkeep:
                a_task_is_due_for_a_sweep_once_its_time_has_come_and_not_while_it_is_leased,
                tasks_are_due_for_a_sweep_in_the_order_of_their_time,
                a_task_that_is_put_off_is_due_later_and_keeps_its_revision,
                a_sweep_leaves_a_task_as_long_unchanged_and_unclaimed_as_it_was,
                a_listing_is_one_callers_until_it_is_due_again,
                a_listing_whose_holder_died_goes_on_where_it_was,
                of_fifty_racing_callers_one_gets_the_listing;
            types:
                a_type_comes_back_as_it_was_written,
                a_type_that_cannot_be_read_counts_as_disabled_and_stops_no_other,
                a_type_changes_only_from_the_revision_that_was_read,
                failures_are_counted_since_the_last_success,
                tenants_are_found_of_which_a_task_has_failed,
                parked_tasks_of_others_hide_no_failure,
                waiting_tasks_are_counted_by_tenant_and_type;
            workers:
                a_process_is_listed_as_it_says_of_itself,
                a_process_that_is_not_seen_for_long_is_lost,
                a_process_is_forgotten_where_it_was_not_seen_meanwhile,
                what_came_and_went_is_counted_from_a_time_on,
                what_is_under_way_is_counted_and_its_age_told,
                tasks_are_counted_by_labels_and_the_rarest_values_together,
                what_nobody_came_for_is_found,
                what_was_offered_again_is_found_less_and_less_often;
            finding:
                a_dispatched_task_is_claimable_once_it_is_unclaimed_for_long,
                a_waiting_task_is_claimable_when_it_is_due,
                claimable_tasks_are_found_page_by_page,
                a_compensating_task_whose_message_was_lost_is_claimable,
                the_oldest_claimable_tasks_come_first,
                only_active_tasks_with_an_expired_lease_are_lost,
                lost_tasks_are_found_by_type_and_by_age,
                a_lost_task_is_reserved_for_one_caller_until_it_is_taken_back,
                a_list_pages_from_the_newest_and_filters,
                the_revisions_of_tasks_are_read_together,
                tasks_are_open_or_have_ended_since,
                parked_tasks_are_read_in_the_order_of_their_last_change,
                tasks_in_flight_are_counted_by_what_they_were_submitted_under,
                a_relay_takes_the_events_of_each_change_once_until_they_are_published,
                what_is_published_of_a_change_leaves_the_others_in_the_outbox,
                poison_is_kept_once_until_a_person_removes_it,
                a_queue_keeps_1000_poison_messages_and_counts_the_others;
        }
    };
}
pub(crate) use row_cases;

/// The cases of a queue. What it is to deliver is committed through the store beside it, or
/// published.
macro_rules! queue_cases {
    ($open:path) => {
        crate::conformance! { $open;
            queue:
                an_acked_message_never_comes_again,
                an_unsettled_message_comes_again_after_the_ack_wait,
                a_nak_delays_the_redelivery,
                progress_puts_the_redelivery_off,
                a_terminated_message_never_comes_again,
                an_empty_fetch_ends_with_its_wait,
                only_the_queues_asked_for_are_fetched,
                each_message_goes_to_one_of_many_fetches;
        }
    };
}
pub(crate) use queue_cases;

/// The cases of an object store.
macro_rules! object_cases {
    ($open:path) => {
        crate::conformance! { $open;
            objects:
                an_object_comes_back_as_it_was_put,
                a_part_of_an_object_comes_back,
                an_object_may_be_empty,
                sixteen_mebibytes_in_small_chunks_come_back,
                a_source_that_breaks_off_leaves_nothing,
                an_object_that_is_not_there_is_not_found,
                a_prefix_is_listed_and_deleted_in_every_bucket,
                deleting_nothing_is_success,
                keys_and_buckets_that_could_lead_elsewhere_are_refused,
                puts_beside_deletes_lose_nothing,
                pages_show_everything_once_and_in_order,
                only_what_was_listed_is_removed,
                an_object_that_is_set_aside_is_in_no_page,
                what_is_put_aside_is_in_no_page_and_whole_or_not_at_all;
        }
    };
}
pub(crate) use object_cases;

/// The cases of an object store that shows uploads before they are complete.
macro_rules! open_upload_cases {
    ($open:path) => {
        crate::conformance! { $open;
            open_uploads:
                a_half_done_upload_is_listed_and_deleted,
                a_page_shows_half_done_uploads_as_such;
        }
    };
}
pub(crate) use open_upload_cases;

/// The cases of local files.
macro_rules! scratch_cases {
    ($open:path) => {
        crate::conformance! { $open;
            scratch:
                a_sealed_file_is_located_and_read,
                what_files_take_is_measured_by_step_and_for_all,
                a_new_attempt_removes_what_an_earlier_one_had_not_finished,
                a_file_of_another_size_counts_as_gone,
                removed_scratch_is_gone_and_removing_nothing_is_success,
                tasks_with_scratch_are_known,
                names_that_could_lead_elsewhere_are_refused;
        }
    };
}
pub(crate) use scratch_cases;

/// The cases of locks, and of the hints that come with them.
macro_rules! lock_cases {
    ($open:path) => {
        crate::conformance! { $open;
            locks:
                a_held_lock_is_elsewhere_for_everyone_until_it_is_released,
                a_lock_ends_by_itself,
                an_extension_puts_the_end_off,
                only_its_holder_extends_a_lock,
                only_its_holder_releases_a_lock,
                a_late_release_leaves_the_next_holders_lock_alone,
                of_fifty_racing_hosts_one_gets_the_lock,
                locks_of_other_tasks_do_not_meet;
            hints:
                what_is_remembered_was_seen_until_its_time_is_over,
                a_counter_counts_every_addition_once,
                a_window_ends_however_many_additions_there_are,
                a_state_is_kept_until_its_time_is_over,
                a_state_is_swapped_only_from_what_it_is,
                of_fifty_racing_swaps_one_wins,
                a_state_that_is_swapped_for_no_time_is_gone_at_once,
                a_state_says_how_much_longer_it_is_kept,
                the_kinds_of_keys_do_not_meet;
            breakers:
                failures_open_it,
                of_fifty_attempts_of_two_processes_one_probes;
        }
    };
}
pub(crate) use lock_cases;

/// The whole suite, for a set of adapters that gives every port.
macro_rules! every_case {
    ($open:path) => {
        crate::store_cases!($open);
        crate::queue_cases!($open);
        crate::object_cases!($open);
        crate::open_upload_cases!($open);
        crate::scratch_cases!($open);
        crate::lock_cases!($open);
    };
}
pub(crate) use every_case;
