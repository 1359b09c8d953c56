-- Files that were prepared for somebody to download. What is being prepared, and what
-- has become of it, is in onceward_operations, beside River's own tables, which the
-- package riveroperation makes.

-- +goose Up
CREATE TABLE exports (
  user_id    TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
  id         TEXT NOT NULL,
  format     TEXT NOT NULL CHECK (format IN ('json', 'ics')),
  part       TEXT NOT NULL CHECK (part IN ('all', 'week')),
  name       TEXT NOT NULL,
  body       BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (user_id, id)
) STRICT;
CREATE INDEX exports_expiry ON exports (expires_at);

-- +goose Down
DROP TABLE exports;
