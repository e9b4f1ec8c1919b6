-- StockService, holds that end by themselves.

-- Groups of which a hold ended a while ago and is not given back: who should have is gone.
-- args: cursor -> {'OK', next cursor or '' at the end, base of each...}
define('stock_find_overdue', {'no-writes'}, function()
  return {'OK', ''}
end)
