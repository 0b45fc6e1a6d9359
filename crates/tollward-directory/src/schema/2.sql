-- Suspension: when it began, and why. NULL for what is not suspended.
ALTER TABLE tenants ADD COLUMN suspended_at BIGINT;
ALTER TABLE tenants ADD COLUMN suspended_reason TEXT;
ALTER TABLE users ADD COLUMN suspended_at BIGINT;
ALTER TABLE users ADD COLUMN suspended_reason TEXT;
ALTER TABLE api_keys ADD COLUMN suspended_at BIGINT;
ALTER TABLE api_keys ADD COLUMN suspended_reason TEXT;

-- To find the key that has replaced another.
CREATE INDEX api_keys_replaces ON api_keys (replaces);

-- The allow-list and the deny-list in one table.
CREATE TABLE listed (
    id TEXT PRIMARY KEY,
    -- 'allow' or 'deny'.
    list TEXT NOT NULL,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    UNIQUE (list, kind, value)
);
INSERT INTO listed (id, list, kind, value, reason, created_at, updated_at, version)
    SELECT id, 'allow', kind, value, reason, created_at, updated_at, version FROM allowed;
DROP TABLE allowed;
