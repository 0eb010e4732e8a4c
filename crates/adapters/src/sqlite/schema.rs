//! The tables as diesel sees them. Must say the same as `migrations/sqlite`.

diesel::table! {
    clock (id) {
        id -> Integer,
        at -> BigInt,
        monotonic -> Nullable<BigInt>,
        origin -> Nullable<Text>,
    }
}

diesel::table! {
    tasks (id) {
        id -> Text,
        tenant -> Text,
        task_type -> Text,
        version -> BigInt,
        definition_hash -> Text,
        status -> Text,
        waiting -> Nullable<Text>,
        host -> Text,
        queue -> Text,
        rev -> BigInt,
        epoch -> BigInt,
        lease_owner -> Nullable<Text>,
        lease_expires_at -> Nullable<BigInt>,
        due_at -> Nullable<BigInt>,
        deadline_at -> Nullable<BigInt>,
        cancel_requested_at -> Nullable<BigInt>,
        goal -> Nullable<Text>,
        recovery_attempts -> BigInt,
        audit_seq -> BigInt,
        audit_seal -> Nullable<Binary>,
        failure -> Nullable<Text>,
        residue -> Bool,
        traceparent -> Nullable<Text>,
        labels -> Nullable<Text>,
        created_at -> BigInt,
        updated_at -> BigInt,
        finished_at -> Nullable<BigInt>,
        sweep_at -> Nullable<BigInt>,
        change_id -> Text,
    }
}

diesel::table! {
    receives (task) {
        task -> Text,
        tenant -> Text,
        is_condemned -> Bool,
        sweep_at -> BigInt,
    }
}

diesel::table! {
    journal (task, rev) {
        task -> Text,
        rev -> BigInt,
        epoch -> BigInt,
        at -> BigInt,
        change_id -> Text,
        actor -> Text,
        form -> Integer,
        entries -> Text,
        data -> Nullable<Text>,
        link -> Binary,
        seal -> Binary,
    }
}

diesel::table! {
    outbox (id) {
        id -> BigInt,
        task -> Text,
        events -> Text,
        change_id -> Text,
        created_at -> BigInt,
        visible_at -> BigInt,
    }
}

diesel::table! {
    idempotency (tenant, key) {
        tenant -> Text,
        key -> Text,
        task -> Text,
        fingerprint -> Nullable<Text>,
        answer -> Nullable<Text>,
        expires_at -> BigInt,
        change_id -> Text,
        owner -> Nullable<Text>,
    }
}

diesel::table! {
    documents (kind, tenant, name) {
        kind -> Text,
        tenant -> Text,
        name -> Text,
        rev -> BigInt,
        body -> Text,
        due_at -> Nullable<BigInt>,
        seen_at -> BigInt,
    }
}
