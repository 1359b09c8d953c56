-- Times are integer milliseconds, UTC. Dates are civil ("2026-11-30") and times
-- of day are civil too ("18:00"): "on Thursday at six" means the wall clock
-- where the person is, so no daylight-saving change can move it.
--
-- Every id of a person's thing is (user_id, id): an id that a client chose can
-- never touch another person's row.

-- +goose Up
CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;

CREATE TABLE users (
  id            TEXT PRIMARY KEY,
  login         TEXT NOT NULL COLLATE NOCASE UNIQUE,
  pass_hash     TEXT NOT NULL,
  recovery_hash TEXT,
  name          TEXT NOT NULL DEFAULT '',
  tz            TEXT,
  tz_auto       INTEGER NOT NULL DEFAULT 1,
  locale        TEXT NOT NULL DEFAULT 'ru',
  theme         TEXT NOT NULL DEFAULT 'system' CHECK (theme IN ('system', 'light', 'dark')),
  session_epoch INTEGER NOT NULL DEFAULT 0,
  created_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
  token_hash BLOB PRIMARY KEY,
  user_id    TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
  epoch      INTEGER NOT NULL,
  ua         TEXT,
  created_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- How often somebody tried something in a window of time: sign-in by address
-- and login, registration by address. In the database, so that a restart does
-- not hand out new tries.
CREATE TABLE tries (
  bucket     TEXT PRIMARY KEY,
  n          INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX tries_expiry ON tries (expires_at);

CREATE TABLE series (
  user_id    TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
  id         TEXT NOT NULL,
  title      TEXT NOT NULL,
  note       TEXT NOT NULL DEFAULT '',
  subject_id TEXT,
  kind       TEXT NOT NULL,
  due_time   TEXT,
  rrule      TEXT NOT NULL,
  dtstart    TEXT NOT NULL,
  until_date TEXT,
  ended_at   INTEGER,
  PRIMARY KEY (user_id, id)
) STRICT;

CREATE TABLE tasks (
  user_id      TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
  id           TEXT NOT NULL,
  kind         TEXT NOT NULL DEFAULT 'todo' CHECK (kind IN ('homework', 'test', 'todo')),
  title        TEXT NOT NULL CHECK (length(title) BETWEEN 1 AND 500),
  note         TEXT NOT NULL DEFAULT '' CHECK (length(note) <= 20000),
  subject_id   TEXT,
  due_date     TEXT,
  due_time     TEXT CHECK (due_time IS NULL OR due_date IS NOT NULL),
  important    INTEGER NOT NULL DEFAULT 0,
  done_at      INTEGER,
  is_completed INTEGER GENERATED ALWAYS AS (done_at IS NOT NULL) VIRTUAL,
  deleted_at   INTEGER,
  rank         TEXT NOT NULL DEFAULT 'm',
  series_id    TEXT,
  occurrence   TEXT,
  retracted    INTEGER NOT NULL DEFAULT 0, -- a successor that "not done" took back
  rev          INTEGER NOT NULL DEFAULT 1,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (user_id, id),
  UNIQUE (user_id, series_id, occurrence),
  CHECK ((series_id IS NULL) = (occurrence IS NULL)),
  FOREIGN KEY (user_id, series_id) REFERENCES series (user_id, id)
) STRICT;
CREATE INDEX tasks_due ON tasks (user_id, due_date) WHERE done_at IS NULL AND deleted_at IS NULL AND retracted = 0;
CREATE INDEX tasks_trash ON tasks (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX tasks_done ON tasks (user_id, done_at) WHERE done_at IS NOT NULL AND deleted_at IS NULL;

-- +goose Down
DROP TABLE tasks;
DROP TABLE series;
DROP TABLE tries;
DROP TABLE sessions;
DROP TABLE users;
DROP TABLE meta;
