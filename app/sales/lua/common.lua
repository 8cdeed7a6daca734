-- Stands before each script of a purchase. "Generation" tells one opening of a sale from the next: see app/sales/opening.py.

-- The items left; or nil and the status {'generation', the one in Redis or ''}, if this is not the sale that is expected.
local function items_left(stock_key, generation_key, expected)
  local stock, generation = redis.call('GET', stock_key), redis.call('GET', generation_key)
  if tonumber(stock) and generation == expected then  -- the stock of a sale that opens later is not a number
    return tonumber(stock)
  end
  return nil, {'generation', stock and generation or ''}
end

-- The status {'fenced', fence} if a token higher than `token` was here; '' means no token. Tokens are zero-padded texts, because
-- Lua's numbers are exact only up to 2^53.
local function fenced(fence_key, token)
  local fence = token ~= '' and redis.call('GET', fence_key)
  return fence and token < fence and {'fenced', fence}
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

