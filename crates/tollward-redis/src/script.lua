-- Decides a batch of parts, one after the other and each all or nothing, exactly as tollward-core does.
--
-- KEYS     the distinct buckets of the batch, each read once and written at most once
-- ARGV[1]  msgpack, a flat array of integers:
--            now in µs, or 0 for the clock of the server; ms to be added to every TTL; where the parts begin;
--            for each limit: tag, rate, window in µs, capacity;
--            for each part: op, number of charges, moment of the charge (ops 2 and 6 only),
--              and for each charge: key, place of the limit in this array, cost, shadow,
--                and for op 6 the state that was left, and the one before it: tag (0 is full) and numbers
-- Answers  { now in µs, "1" or "0" for each part, the values of KEYS before the batch }
--
-- ops      0 charge, 1 peek, 2 credit, 3 settle, 6 undo: put back what was before, or else credit;
--          4 and 5 are 0 and 1 where two charges have one key
-- tag      window in seconds; and 2^31 for a sliding window
-- a value  tag, moment in µs, then
--            token bucket: whole tokens spent, and parts of 1/window-in-µs of a token
--            sliding window: tokens taken in the window of the moment, and in the one before
--          and the second until which the key is sure to live: a TTL is set anew only when it has to be
--
-- Numbers are doubles: every one of them is an integer, and below 2^53. Windows are below 2^45 µs, rates,
-- capacities and tokens below 2^32. `x % y` and `(x - x % y) / y` are exact for such numbers.

local unpack_value, pack_value = struct.unpack, struct.pack
local args = cmsgpack.unpack(ARGV[1])
local keys = #KEYS

local now = args[1]
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local values = {}
if keys > 0 then
  values = redis.call('MGET', unpack(KEYS))
end

-- The states: moments (nil is not read yet, false is a full bucket), tags, and the two numbers.
local moments, tags, wholes, rests = {}, {}, {}, {}
-- Until when the keys live that were there.
local lives = {}
-- The place of the limit that wrote to a key.
local writers = {}

-- a · n / length for a <= length: the quotient and what is left over, digit by digit where it is wide.
local function share(a, n, length)
  local x = a * n
  if x < 2^53 then
    local rest = x % length
    return (x - rest) / length, rest
  end
  local whole, rest, unit = 0, 0, 2^28
  for _ = 1, 5 do
    local below = n % unit
    -- Less than 255 lengths.
    x = rest * 128 + a * ((n - below) / unit)
    rest = x % length
    whole = whole * 128 + (x - rest) / length
    n, unit = below, unit / 128
  end
  return whole, rest
end

-- The sliding estimate: whole tokens and parts.
local function estimate(moment, current, previous, length)
  if previous == 0 then
    return current, 0
  end
  local whole, rest = share(length - moment % length, previous, length)
  return current + whole, rest
end

-- Reads a key's value for the first time. One that cannot be a state, whoever put it there, is an empty
-- bucket of the limit that asks, from a time that will not come: so it is replaced by what is decided.
local function read(key, limit)
  local value = values[key]
  if not value then
    moments[key] = false
    return false
  end
  local tag, moment, whole, rest, life
  local valid = #value == 28
  if valid then
    tag, moment, whole, rest, life = unpack_value('<I4I8I4I8I4', value)
    local secs = tag % 2^31
    valid = secs > 0 and secs <= 31622400 and moment < 2^53
    if tag >= 2^31 then
      valid = valid and rest < 2^32
    else
      valid = valid and rest < secs * 1000000 and (whole < 2^32 - 1 or rest == 0)
    end
  end
  if not valid then
    tag, moment, whole, rest, life = args[limit] % 2^31, 2^53 - 1, args[limit + 3], 0, 0
  end
  lives[key] = life
  moments[key], tags[key], wholes[key], rests[key] = moment, tag, whole, rest
  return moment
end

-- What a state amounts to now, whatever wrote it: the moment, the two numbers in the terms of the limit,
-- whether the clock was stepped back, whether it is unknown when it was spent.
local function carry(key, limit, moment)
  local tag, whole, rest = tags[key], wholes[key], rests[key]
  local ours, length = args[limit], args[limit + 2]
  local at, stepped = now, false
  if moment > now then
    -- Within the slack no time has passed.
    if moment - now > 1000000 then stepped = true else at = moment end
  end
  local other = tag ~= ours
  local secs = tag % 2^31

  if ours < 2^31 then
    if other then
      if tag >= 2^31 then
        whole, rest = estimate(moment, whole, rest, secs * 1000000)
        if whole >= 2^32 - 1 then whole, rest = 2^32 - 1, 0 end
      end
      if secs ~= ours then
        -- rest · ours / secs, rounded up.
        local over = rest % secs
        local x = over * ours
        local left = x % secs
        rest = (rest - over) / secs * ours + (x - left) / secs
        if left > 0 then rest = rest + 1 end
        if rest == length then whole, rest = whole + 1, 0 end
      end
    end
    if at > moment then
      local elapsed = at - moment
      local part = elapsed % length
      local back, back_rest = share(part, args[limit + 1], length)
      -- Inexact only where it is more than was ever spent.
      whole = whole - back - (elapsed - part) / length * args[limit + 1]
      rest = rest - back_rest
      if rest < 0 then whole, rest = whole - 1, rest + length end
      if whole < 0 then whole, rest = 0, 0 end
    end
    return at, whole, rest, stepped, false
  end

  local carried = stepped or other
  if carried then
    -- What counts of it now counts whole.
    if tag >= 2^31 then
      whole, rest = estimate(moment, whole, rest, secs * 1000000)
    end
    if rest > 0 then whole, rest = whole + 1, 0 end
    if whole > 2^32 - 1 then whole = 2^32 - 1 end
  end
  if stepped then moment = at end
  local passed = (at - at % length) - (moment - moment % length)
  if passed == length then
    whole, rest = 0, whole
  elseif passed ~= 0 then
    whole, rest = 0, 0
  end
  return at, whole, rest, stepped, carried
end

-- The same, and short for what is almost always there: the same limit, a little later.
local function level(key, limit)
  local moment = moments[key]
  if moment == nil then
    moment = read(key, limit)
  end
  if not moment then
    return now, 0, 0, false, false
  end
  local ours = args[limit]
  if ours < 2^31 and ours == tags[key] and moment <= now then
    local back = (now - moment) * args[limit + 1]
    if back < 2^53 then
      local length = args[limit + 2]
      local part = back % length
      local whole, rest = wholes[key] - (back - part) / length, rests[key] - part
      if rest < 0 then whole, rest = whole - 1, rest + length end
      if whole < 0 then return now, 0, 0, false, false end
      return now, whole, rest, false, false
    end
  end
  return carry(key, limit, moment)
end

local function admits(limit, at, whole, rest, cost)
  if cost == 0 then
    return true
  end
  if args[limit] >= 2^31 then
    whole, rest = estimate(at, whole, rest, args[limit + 2])
  end
  local room = args[limit + 3] - cost
  return whole < room or whole == room and rest == 0
end

local function keep(key, limit, at, whole, rest)
  writers[key] = limit
  if whole == 0 and rest == 0 then
    moments[key] = false
  else
    moments[key], tags[key], wholes[key], rests[key] = at, args[limit], whole, rest
  end
end

-- Takes a cost, admitted or not. What cannot be held saturates.
local function take(key, limit, at, whole, rest, cost)
  whole = whole + cost
  if whole >= 2^32 - 1 then
    whole = 2^32 - 1
    if args[limit] < 2^31 then rest = 0 end
  end
  keep(key, limit, at, whole, rest)
end

local function credit(key, limit, cost, charged)
  local at, whole, rest, _, carried = level(key, limit)
  if args[limit] < 2^31 then
    whole = whole - cost
    if whole < 0 then whole, rest = 0, 0 end
  elseif not carried then
    local length = args[limit + 2]
    -- `at` is ahead of the clock only within the slack: then the clock's now is this moment.
    if charged >= now then charged = at end
    local passed = (at - at % length) - (charged - charged % length)
    if passed == 0 then
      whole = whole > cost and whole - cost or 0
    elseif passed == length then
      rest = rest > cost and rest - cost or 0
    end
  end
  keep(key, limit, at, whole, rest)
end

-- Puts a state back if nobody has touched what was left in its place, or else gives the cost back.
local function undo(i, charged)
  local key, limit = args[i], args[i + 1]
  local moment = moments[key]
  if moment == nil then
    moment = read(key, limit)
  end
  if moment ~= args[i + 5] or tags[key] ~= args[i + 4] or wholes[key] ~= args[i + 6] or rests[key] ~= args[i + 7] then
    return credit(key, limit, args[i + 2], charged)
  end
  writers[key] = limit
  if args[i + 8] == 0 then
    moments[key] = false
  else
    tags[key], moments[key], wholes[key], rests[key] = args[i + 8], args[i + 9], args[i + 10], args[i + 11]
  end
end

local function settle(key, limit, cost)
  local at, whole, rest, stepped = level(key, limit)
  local capacity = args[limit + 3]
  local taken = false
  if args[limit] < 2^31 then
    if whole < capacity and cost > 0 then
      taken = true
      whole = whole + cost
      if whole >= capacity then whole, rest = capacity, 0 end
    end
  else
    local spent, part = estimate(at, whole, rest, args[limit + 2])
    local left = capacity - spent
    if part > 0 then left = left - 1 end
    if cost < left then left = cost end
    if left > 0 then
      taken = true
      whole = whole + left
    end
  end
  if taken or stepped then
    keep(key, limit, at, whole, rest)
  end
end

-- The levels of a part.
local ats, spents, parts, yeses, steppeds = {}, {}, {}, {}, {}

-- A part whose keys are all different.
local function once(op, first, last)
  local admitted, n = true, 0
  for j = first, last, 4 do
    local limit = args[j + 1]
    local at, whole, rest, stepped = level(args[j], limit)
    local yes = admits(limit, at, whole, rest, args[j + 2])
    n = n + 1
    ats[n], spents[n], parts[n], yeses[n], steppeds[n] = at, whole, rest, yes, stepped
    if not yes and args[j + 3] == 0 then
      admitted = false
    end
  end
  if op == 0 then
    n = 0
    for j = first, last, 4 do
      n = n + 1
      local cost = args[j + 2]
      if admitted and cost > 0 and yeses[n] then
        keep(args[j], args[j + 1], ats[n], spents[n] + cost, parts[n])
      elseif steppeds[n] then
        keep(args[j], args[j + 1], ats[n], spents[n], parts[n])
      end
    end
  end
  return admitted
end

-- A part that has a key more than once: each charge sees what those before it took.
local function twice(op, first, last)
  local admitted, undo = true, {}
  -- First as if every charge counted that is admitted: this decides.
  for j = first, last, 4 do
    local key, limit, cost = args[j], args[j + 1], args[j + 2]
    local at, whole, rest = level(key, limit)
    local yes = admits(limit, at, whole, rest, cost)
    undo[j] = { moments[key], tags[key], wholes[key], rests[key], writers[key] }
    if yes then
      take(key, limit, at, whole, rest, cost)
    elseif args[j + 3] == 0 then
      admitted = false
    end
    yeses[j] = yes
  end
  for j = last - 3, first, -4 do
    local key = args[j]
    moments[key], tags[key], wholes[key], rests[key], writers[key] = unpack(undo[j], 1, 5)
  end
  -- Then for good, in the same order.
  if op == 4 then
    for j = first, last, 4 do
      local key, limit, cost = args[j], args[j + 1], args[j + 2]
      local at, whole, rest, stepped = level(key, limit)
      if admitted and cost > 0 and yeses[j] then
        take(key, limit, at, whole, rest, cost)
      elseif stepped then
        keep(key, limit, at, whole, rest)
      end
    end
  end
  return admitted
end

local verdicts, decided = {}, 0
local i, stop = args[3], #args
while i <= stop do
  local op = args[i]
  local first = i + 2
  local last = i + 1 + args[i + 1] * 4
  local admitted = true
  if op <= 1 then
    admitted = once(op, first, last)
  elseif op == 2 then
    last = last + 1
    for j = first + 1, last, 4 do
      credit(args[j], args[j + 1], args[j + 2], args[first])
    end
  elseif op == 3 then
    for j = first, last, 4 do
      settle(args[j], args[j + 1], args[j + 2])
    end
  elseif op == 6 then
    last = i + 2 + args[i + 1] * 12
    for j = first + 1, last, 12 do
      undo(j, args[first])
    end
  else
    admitted = twice(op, first, last)
  end
  decided = decided + 1
  verdicts[decided] = admitted and '1' or '0'
  i = last + 1
end

local slack = args[2] + 2
for key = 1, keys do
  local limit = writers[key]
  if limit then
    local at = moments[key]
    if at then
      local tag, whole, rest, length = tags[key], wholes[key], rests[key], args[limit + 2]
      -- Microseconds until it is full again, as near as a double comes.
      local full
      if tag ~= args[limit] then
        -- Put back, and written by another limit: no less than it would be by this one.
        full = args[limit] < 2^31 and (whole + rest + 1) * length / args[limit + 1] or 2 * length
      elseif tag < 2^31 then
        full = (whole * length + rest) / args[limit + 1]
      else
        full = length - at % length
        if whole > 0 then full = full + length end
      end
      -- What is put back may be full by now.
      local left = full + at - now
      if left < 0 then left = 0 end
      local ttl = left * 0.001000000001 + slack
      local life = lives[key]
      if life and life * 1000 >= now / 1000 + ttl then
        redis.call('SET', KEYS[key], pack_value('<I4I8I4I8I4', tag, at, whole, rest, life), 'KEEPTTL')
      else
        -- Longer than it has to be, so that it will do for a while.
        ttl = ttl + 30000
        if ttl > 2^53 then ttl = 2^53 end
        ttl = ttl - ttl % 1
        life = now / 1000 + ttl
        life = (life - life % 1000) / 1000
        if life >= 2^32 then life = 2^32 - 1 end
        local value = pack_value('<I4I8I4I8I4', tag, at, whole, rest, life)
        redis.call('SET', KEYS[key], value, 'PX', ttl)
      end
    elseif values[key] then
      redis.call('DEL', KEYS[key])
    end
  end
end
return { now, table.concat(verdicts), values }
