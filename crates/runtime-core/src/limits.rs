//! Every bound has one name. Sizes are bytes unless the name says otherwise.

/// The largest integer that every store, JSON reader and JavaScript client keeps exactly: 2^53 - 1.
pub const SAFE_INTEGER_MAX: i64 = (1 << 53) - 1;

/// Project, task, trigger, worker and owner ids.
pub const ID_BYTES_MAX: usize = 128;
/// Display names.
pub const NAME_BYTES_MAX: usize = 255;
/// Text of a cron expression.
pub const CRON_BYTES_MAX: usize = 768;
/// An IANA zone name.
pub const TIME_ZONE_BYTES_MAX: usize = 128;
/// A caller's idempotency key.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// An operator's reason, a stored error summary.
pub const SUMMARY_BYTES_MAX: usize = 1_024;

/// Compact bytes of an event payload.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1_024;
/// Nesting of an event payload; the payload object itself is depth 1.
pub const PAYLOAD_DEPTH_MAX: usize = 64;

/// Events a page.
pub const EVENT_PAGE_MAX: u32 = 500;
/// Runs a page of the cancellation recovery reader.
pub const CANCELLATION_PAGE_MAX: u32 = 500;
/// Rows a page of every list.
pub const LIST_PAGE_MAX: u32 = 500;

/// Claim and dispatch leases.
pub const LEASE_MS_MIN: u64 = 1_000;
/// Claim and dispatch leases.
pub const LEASE_MS_MAX: u64 = 60_000;
/// Claim and dispatch leases.
pub const LEASE_MS_DEFAULT: u64 = 30_000;
/// Claims a page.
pub const CLAIM_PAGE_DEFAULT: u32 = 16;
/// Claims a page.
pub const CLAIM_PAGE_MAX: u32 = 256;

/// How late an occurrence may be admitted before it counts as a misfire.
pub const MISFIRE_GRACE_MS_MAX: u64 = 300_000;
/// How late an occurrence may be admitted before it counts as a misfire.
pub const MISFIRE_GRACE_MS_DEFAULT: u64 = 120_000;
/// Slack between two leases and the grace: with less, every takeover would be a misfire.
pub const MISFIRE_GRACE_SLACK_MS: u64 = 5_000;

/// Where a ledger count stops; a capped count says so.
pub const LEDGER_COUNT_MAX: u32 = 1_000;
/// How far ahead an occurrence is searched.
pub const CRON_HORIZON_YEARS: i16 = 40;

/// Attempts of a Run.
pub const ATTEMPTS_MAX: u32 = 16;
/// Retry backoff, base and maximum.
pub const BACKOFF_MS_MAX: u64 = 86_400_000;
/// A task's timeout.
pub const TIMEOUT_MS_MAX: u64 = 30 * 86_400_000;
/// A task's `max_concurrent`.
pub const MAX_CONCURRENT_MAX: u32 = 1_000;
/// Priority is `-PRIORITY_ABS_MAX ..= PRIORITY_ABS_MAX`; higher runs first.
pub const PRIORITY_ABS_MAX: i32 = 1_000;
/// Compact bytes of a task's or trigger's definition.
pub const DEFINITION_BYTES_MAX: usize = 64 * 1_024;
