-- Stands before each script of a purchase. The generation tells one sale from the next: see app/sales/sale.py.

-- Who numbers a token: the text before its colon; etcd's tokens have none. Tokens of two numberings cannot be compared.
local function numbering(token)
  return string.match(token, '^(.*):') or ''
end

-- The items left; or nil and a status that ends the script before it has changed anything:
--   {'generation', found, now}  Redis has not the generation that is expected, but this one, or no sale: ''. `now` is the time of
--                               Redis in microseconds since the epoch
--   {'damaged', key}            the value of this key is not a number
--   {'fenced', fence}           a token of this numbering, higher than `token`, was here; '' means no token. Tokens are zero-padded texts, because
--                               Lua's numbers are exact only up to 2^53.
local function items_left(stock_key, generation_key, expected, fence_key, token)
  local stock, generation = unpack(redis.call('MGET', stock_key, generation_key))
  if stock and not tonumber(stock) then
    return nil, {'damaged', stock_key}
  end
  if not stock or generation ~= expected then
    local seconds, microseconds = unpack(redis.call('TIME'))
    return nil, {'generation', stock and generation or '', string.format('%.0f', seconds * 1000000 + microseconds)}
  end
  local fence = token ~= '' and redis.call('GET', fence_key)
  if fence and numbering(fence) == numbering(token) and token < fence then
    return nil, {'fenced', fence}
  end
  return tonumber(stock)
end

-- The same for a script whose token shuts out every lower one from here on.
local function enter(stock_key, generation_key, expected, fence_key, token)
  local stock, refusal = items_left(stock_key, generation_key, expected, fence_key, token)
  if stock and token ~= '' then
    redis.call('SET', fence_key, token)
  end
  return stock, refusal
end

-- The first answer to an idempotency key; '' means no key.
local function first_answer(answers_key, key)
  return key ~= '' and redis.call('HGET', answers_key, key)
end

local function keep_answer(answers_key, key, outcome, stock, entry)
  if key ~= '' then
    local answer = '{"outcome":"' .. outcome .. '","stock":' .. stock .. ',"entry":' .. entry .. '}'
    redis.call('HSET', answers_key, key, answer)
  end
end

