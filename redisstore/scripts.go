package redisstore

import "github.com/redis/go-redis/v9"

// Each transition is one script, and Redis runs a script as a whole: nothing
// comes between its reading and its writing. KEYS[1] is the record; the scripts
// touch nothing else, so that they run in a Cluster too. The server's clock is
// asked inside (TIME), which Redis allows before a write since version 5: it
// replicates what a script wrote, not the script.
//
// A script that fails keeps what it wrote until then. So what a full server may
// refuse, HSET, is the first write of each, and what follows frees or only dates.
//
// The fields are listed in docs/redis.md.

// prelude begins every script that looks at a record. Numbers are written with
// %.0f because Lua prints large ones with an exponent.
const prelude = `
local key = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function int(x) return string.format('%.0f', x) end

-- The last millisecond in which the record counts; nil: it never ends by itself.
local function last(r)
  if r.st == 'held' then return nil end
  if r.st ~= 'in-progress' then return r.at + r.kp - 1 end
  if tonumber(r.kp) < 0 then return nil end
  return r.le + r.kp
end

local function absent(r)
  local l = last(r)
  return l ~= nil and now > l
end

local function date(r)
  local l = last(r)
  if l then redis.call('PEXPIREAT', key, int(l)) else redis.call('PERSIST', key) end
end
`

// meta reads what decides about a record, without its answer; r is nil where
// there is none. A field v belongs to a format of a later version.
const meta = prelude + `
local function read()
  local f = redis.call('HMGET', key, 'st', 'tk', 'at', 'le', 'kp', 'v')
  if f[6] then return nil, true end
  if not f[1] then return nil end
  local r = {st = f[1], tk = f[2], at = f[3], le = f[4], kp = f[5]}
  if absent(r) then return nil end
  return r
end
local r, newer = read()
if newer then return -1 end
`

// claimScript: ARGV fingerprint, token, lease, keep, take over ("1"), request.
// It answers {what, now, field, value, …}: 0 somebody has it, 1 the caller has
// it, -1 the record is of a later version.
var claimScript = redis.NewScript(prelude + `
local fp, tok, lease, keep, takeover, req = unpack(ARGV)
local flat = redis.call('HGETALL', key)
local r = {}
for i = 1, #flat, 2 do r[flat[i]] = flat[i + 1] end
if r.v then return {-1, now} end

if r.st and not absent(r) then
  if r.le == nil or r.fp ~= fp then return {0, now, unpack(flat)} end
  if r.tk == tok then
    -- The caller did not hear the first answer. Its lease began then; what it
    -- is promised now must hold from now.
    r.le = math.max(tonumber(r.le), now + lease)
    redis.call('HSET', key, 'le', int(r.le))
  elseif takeover == '1' and r.st ~= 'held' and tonumber(r.le) <= now then
    r.le, r.kp = now + lease, keep
    redis.call('HSET', key, 'tk', tok, 'n', int((r.n or 1) + 1), 'le', int(r.le), 'kp', keep)
  else
    return {0, now, unpack(flat)}
  end
  -- Read before it is dated: what has no lease and is kept for no time is gone
  -- then, and its owner is still to be told that it was his.
  flat = redis.call('HGETALL', key)
  date(r)
  return {1, now, unpack(flat)}
end

if r.st then redis.call('DEL', key) end
r = {st = 'in-progress', le = now + lease, kp = keep}
flat = {'st', r.st, 'fp', fp, 'tk', tok, 'rq', req, 'at', int(now), 'le', int(r.le), 'kp', keep}
redis.call('HSET', key, unpack(flat))
date(r)
return {1, now, unpack(flat)}
`)

// extendScript: ARGV token, lease, hold ("1"). 1 done, 0 lost.
var extendScript = redis.NewScript(meta + `
local tok, lease, hold = unpack(ARGV)
if not r or not r.le or r.tk ~= tok then return 0 end
if hold == '1' then r.st = 'held' end
r.le = now + lease
redis.call('HSET', key, 'st', r.st, 'le', int(r.le))
date(r)
return 1
`)

// completeScript: ARGV token, retention, status, then the answer's fields and
// values. 1 done, 0 lost.
var completeScript = redis.NewScript(meta + `
local tok, retain, status = unpack(ARGV, 1, 3)
if not r or r.tk ~= tok then return 0 end
if r.le then
  r = {st = status, at = now, kp = retain}
  redis.call('HSET', key, 'st', status, 'at', int(now), 'kp', retain, unpack(ARGV, 4))
  redis.call('HDEL', key, 'le')
end
-- Also where this token had completed it already: WAIT waits for what its own
-- connection wrote, so a repeated call has to write something.
date(r)
return 1
`)

// releaseScript: ARGV token. Whatever it finds, the caller has what it wants.
var releaseScript = redis.NewScript(meta + `
if r and r.le and r.tk == ARGV[1] then redis.call('DEL', key) end
return 1
`)

// lookScript answers {what, now, field, value, …}: 0 absent, 1 there, -1 of a
// later version.
var lookScript = redis.NewScript(prelude + `
local flat = redis.call('HGETALL', key)
local r = {}
for i = 1, #flat, 2 do r[flat[i]] = flat[i + 1] end
if r.v then return {-1, now} end
if not r.st or absent(r) then return {0, now} end
return {1, now, unpack(flat)}
`)
