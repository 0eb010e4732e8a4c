// Generated from docs/openapi.json by a test; CONTRIBUTING.md says how. Do not edit.

/** @type {Record<string, Record<string, import("./operations.js").Asked>>} */
export const OPERATIONS = {
  alerts: {
    secrets: { method: "GET", path: "/api/alert-secrets", answer: "json" },
    list: { method: "GET", path: "/api/alerts", answer: "items" },
    test: { method: "POST", path: "/api/alerts/test", answer: "json" },
  },
  breakers: {
    list: { method: "GET", path: "/api/breakers", answer: "items" },
    close: { method: "POST", path: "/api/breakers/{name}/close", sends: "body", answer: "json" },
  },
  bulk: {
    list: { method: "GET", path: "/api/bulk-operations", answer: "items" },
    start: { method: "POST", path: "/api/bulk-operations", sends: "body", answer: "json" },
    show: { method: "GET", path: "/api/bulk-operations/{bulk_id}", answer: "json" },
    pause: { method: "POST", path: "/api/bulk-operations/{bulk_id}/pause", answer: "json" },
    resume: { method: "POST", path: "/api/bulk-operations/{bulk_id}/resume", answer: "json" },
    stop: { method: "POST", path: "/api/bulk-operations/{bulk_id}/stop", answer: "json" },
    tasks: { method: "GET", path: "/api/bulk-operations/{bulk_id}/tasks", sends: "query", answer: "items" },
  },
  caller: {
    show: { method: "GET", path: "/api/caller", answer: "json" },
  },
  deadLetters: {
    list: { method: "GET", path: "/api/dead-letters", sends: "query", answer: "items" },
    groups: { method: "GET", path: "/api/dead-letters/groups", sends: "query", answer: "json" },
    show: { method: "GET", path: "/api/dead-letters/{task_id}", answer: "json" },
    poison: { method: "GET", path: "/api/poison-messages", answer: "json" },
    removePoison: { method: "DELETE", path: "/api/poison-messages/{poison_id}", answer: "nothing" },
  },
  effects: {
    list: { method: "GET", path: "/api/open-effects", sends: "query", answer: "items" },
    sums: { method: "GET", path: "/api/open-effects/sums", sends: "query", answer: "json" },
  },
  gates: {
    list: { method: "GET", path: "/api/gates", answer: "items" },
  },
  history: {
    show: { method: "GET", path: "/api/history", answer: "json" },
  },
  keys: {
    list: { method: "GET", path: "/api/keys", answer: "items" },
    make: { method: "POST", path: "/api/keys", sends: "body", answer: "json" },
    revoke: { method: "DELETE", path: "/api/keys/{key_id}", answer: "json" },
  },
  limits: {
    list: { method: "GET", path: "/api/limits", answer: "items" },
    set: { method: "PUT", path: "/api/limits/{name}", sends: "body", answer: "json" },
    reset: { method: "POST", path: "/api/limits/{name}/reset", sends: "body", answer: "json" },
  },
  queues: {
    list: { method: "GET", path: "/api/queues", answer: "items" },
    pause: { method: "POST", path: "/api/queues/{name}/pause", sends: "body", answer: "json" },
    resume: { method: "POST", path: "/api/queues/{name}/resume", sends: "body", answer: "json" },
  },
  schedules: {
    list: { method: "GET", path: "/api/schedules", sends: "query", answer: "items" },
    delete: { method: "DELETE", path: "/api/schedules/{name}", answer: "nothing" },
    show: { method: "GET", path: "/api/schedules/{name}", sends: "query", answer: "json" },
    set: { method: "PUT", path: "/api/schedules/{name}", sends: "body", answer: "json" },
    pause: { method: "POST", path: "/api/schedules/{name}/pause", answer: "json" },
    resume: { method: "POST", path: "/api/schedules/{name}/resume", answer: "json" },
    run: { method: "POST", path: "/api/schedules/{name}/run", answer: "json" },
  },
  tasks: {
    suggest: { method: "GET", path: "/api/searches/suggestions", sends: "query", answer: "items" },
    list: { method: "GET", path: "/api/tasks", sends: "query", answer: "items" },
    cancel: { method: "DELETE", path: "/api/tasks/{task_id}", answer: "json" },
    show: { method: "GET", path: "/api/tasks/{task_id}", sends: "query", answer: "json" },
    at: { method: "GET", path: "/api/tasks/{task_id}/at", sends: "query", answer: "json" },
    audit: { method: "GET", path: "/api/tasks/{task_id}/audit", answer: "json" },
    chain: { method: "GET", path: "/api/tasks/{task_id}/audit/chain", answer: "json" },
    children: { method: "GET", path: "/api/tasks/{task_id}/children", sends: "query", answer: "items" },
    log: { method: "GET", path: "/api/tasks/{task_id}/log", sends: "query", answer: "json" },
    payloads: { method: "GET", path: "/api/tasks/{task_id}/payloads", answer: "json" },
    plan: { method: "GET", path: "/api/tasks/{task_id}/plan", answer: "json" },
    recoveries: { method: "POST", path: "/api/tasks/{task_id}/recoveries", sends: "body", answer: "json" },
    resolve: { method: "POST", path: "/api/tasks/{task_id}/resolve", sends: "body", answer: "json" },
    retry: { method: "POST", path: "/api/tasks/{task_id}/retry", sends: "body", answer: "json" },
    runAgain: { method: "POST", path: "/api/tasks/{task_id}/run-again", sends: "body", answer: "json" },
    signal: { method: "POST", path: "/api/tasks/{task_id}/signals/{name}", sends: "body", answer: "json" },
    webhooks: { method: "GET", path: "/api/tasks/{task_id}/webhooks", answer: "items" },
    sendWebhook: { method: "POST", path: "/api/tasks/{task_id}/webhooks/{webhook}/send", answer: "json" },
    why: { method: "GET", path: "/api/tasks/{task_id}/why", answer: "json" },
  },
  types: {
    list: { method: "GET", path: "/api/task-types", answer: "items" },
    disable: { method: "POST", path: "/api/task-types/{type}/disable", sends: "body", answer: "json" },
    durations: { method: "GET", path: "/api/task-types/{type}/durations", sends: "query", answer: "json" },
    enable: { method: "POST", path: "/api/task-types/{type}/enable", sends: "body", answer: "json" },
  },
  views: {
    list: { method: "GET", path: "/api/views", answer: "items" },
    delete: { method: "DELETE", path: "/api/views/{name}", answer: "nothing" },
    set: { method: "PUT", path: "/api/views/{name}", sends: "body", answer: "json" },
  },
  webhookSecrets: {
    show: { method: "GET", path: "/api/webhook-secrets", answer: "json" },
  },
  workers: {
    list: { method: "GET", path: "/api/workers", sends: "query", answer: "json" },
    pause: { method: "POST", path: "/api/workers/{machine}/pause", sends: "body", answer: "json" },
    resume: { method: "POST", path: "/api/workers/{machine}/resume", sends: "body", answer: "json" },
    show: { method: "GET", path: "/api/workers/{worker_id}", answer: "json" },
  },
};
