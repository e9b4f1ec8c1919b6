-- AdminService: the store's own clock.

-- -> {'OK', ms since 1970}
define('admin_clock', {'no-writes'}, function(base, now)
  return {'OK', int(math.floor(now / 1000))}
end)
