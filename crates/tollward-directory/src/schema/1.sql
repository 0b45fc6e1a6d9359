-- The first schema. Only TEXT and BIGINT, so that it is the same for every database: times are Unix
-- milliseconds (of usage, seconds), truth is 0 or 1, structure is JSON in a text.
--
-- No row points to another by a foreign key: a tenant, a user or a key may also be one of the file.

-- What is counted up, each in a row of its own: that row is the lock of those who count.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
-- The last edit, the last event.
INSERT INTO counters (name, value) VALUES ('revision', 0), ('audit', 0);

-- The edits that nodes can follow from: all from some edit on.
CREATE TABLE edits (
    revision BIGINT PRIMARY KEY,
    -- Any number. After the database was put back to an earlier state, it tells an edit from the one of the
    -- same revision that was lost.
    tag BIGINT NOT NULL,
    at BIGINT NOT NULL
);
-- Before the first.
INSERT INTO edits (revision, tag, at) VALUES (0, 0, 0);

-- Which rows each of these edits changed. What they are now stands in their own tables.
CREATE TABLE changes (
    revision BIGINT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (revision, kind, id)
);

CREATE TABLE tenants (
    id TEXT PRIMARY KEY,
    -- 'system' directly below the root, '' for the root itself.
    parent TEXT NOT NULL,
    plan TEXT,
    rate_limit TEXT,
    rate BIGINT,
    window_secs BIGINT,
    attributes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);
CREATE INDEX tenants_parent ON tenants (parent, id);

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    tenant_id TEXT,
    plan TEXT,
    email_verified BIGINT NOT NULL,
    attributes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);
CREATE INDEX users_tenant ON users (tenant_id, id);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    name TEXT NOT NULL,
    tenant_id TEXT,
    user_id TEXT,
    client TEXT,
    plan TEXT,
    expires_at BIGINT,
    revoked_at BIGINT,
    replaces TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);
CREATE INDEX api_keys_user ON api_keys (user_id, id);

-- Apart from the keys, so that those who use them and those who edit them never wait for each other.
CREATE TABLE key_uses (
    hash TEXT PRIMARY KEY,
    last_used_at BIGINT NOT NULL
);

CREATE TABLE allowed (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    UNIQUE (kind, value)
);

CREATE TABLE boosts (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    factor BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);
CREATE INDEX boosts_target ON boosts (kind, target);
CREATE INDEX boosts_ends_at ON boosts (ends_at);

CREATE TABLE admin_tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);

CREATE TABLE audit (
    id BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    event TEXT NOT NULL,
    severity TEXT NOT NULL,
    actor TEXT,
    address TEXT,
    identifier TEXT,
    scope TEXT,
    route TEXT,
    limit_name TEXT,
    retry_after_ms BIGINT,
    count BIGINT NOT NULL,
    before_json TEXT,
    after_json TEXT,
    node TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at, id);
CREATE INDEX audit_event ON audit (event, at, id);
CREATE INDEX audit_actor ON audit (actor, at, id);
CREATE INDEX audit_identifier ON audit (identifier, at, id);

CREATE TABLE usage (
    -- The length of the span, in seconds.
    granularity BIGINT NOT NULL,
    start BIGINT NOT NULL,
    tenant TEXT NOT NULL,
    plan TEXT NOT NULL,
    route TEXT NOT NULL,
    requests BIGINT NOT NULL,
    refusals BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    errors BIGINT NOT NULL,
    PRIMARY KEY (granularity, start, tenant, plan, route)
);
CREATE INDEX usage_tenant ON usage (tenant, granularity, start);

-- Answers to requests with an idempotency key.
CREATE TABLE answers (
    actor TEXT NOT NULL,
    request_key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    status BIGINT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (actor, request_key)
);
CREATE INDEX answers_created_at ON answers (created_at);

-- Batches of records that were written, so that none is written twice.
CREATE TABLE batches (
    id TEXT PRIMARY KEY,
    at BIGINT NOT NULL
);
CREATE INDEX batches_at ON batches (at);
