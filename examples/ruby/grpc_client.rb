#!/usr/bin/ruby
# lockstock over gRPC, with Debian's ruby-grpc.
#
#     ruby -I STUBS grpc_client.rb HOST:PORT
#
# STUBS: the output of protoc and grpc_ruby_plugin for proto/ (../README.md).
require 'securerandom'
require 'google/protobuf/well_known_types'
require 'google/rpc/error_details_pb'
require 'lockstock/v1/lock_services_pb'
require 'lockstock/v1/ratelimit_services_pb'
require 'lockstock/v1/stock_services_pb'
include Lockstock::V1

def lock(server)
  locks = LockService::Stub.new(server, :this_channel_is_insecure, timeout: 5)
  printer = [Target.new(name: 'printer')]
  held = locks.acquire(AcquireRequest.new(targets: printer, token: SecureRandom.hex, owner: 'me', lease_ms: 10_000))
  puts held.outcome == :ACQUIRE_OUTCOME_ACQUIRED ? 'lock: mine' : 'lock: taken'
  other = locks.acquire(AcquireRequest.new(targets: printer, token: SecureRandom.hex, lease_ms: 10_000))
  puts "lock: taken by #{other.holder.owner}"
  lease = Lease.new(group: held.group, token: held.token, lease_ms: 20_000)
  renewed = locks.renew(RenewRequest.new(leases: [lease]))
  puts renewed.results[0].outcome == :RENEW_OUTCOME_RENEWED ? 'lock: renewed' : 'lock: lost'
  released = locks.release(ReleaseRequest.new(group: held.group, token: held.token))
  puts released.outcome == :RELEASE_OUTCOME_RELEASED ? 'lock: released' : 'lock: was not held'
end

# The order's id makes it safe to send again: the first answer comes back.
def buy(server)
  stock = StockService::Stub.new(server, :this_channel_is_insecure, timeout: 5)
  stock.put_item(PutItemRequest.new(sku: 'phone', on_hand: 10))
  2.times do
    sold = stock.deduct(DeductRequest.new(order_id: 'order-1', lines: [Line.new(sku: 'phone', quantity: 1)]))
    puts "order-1: sold#{' before' if sold.replayed}, #{sold.lines[0].available} left"
  end
end

def limit(server)
  limits = RateLimitService::Stub.new(server, :this_channel_is_insecure, timeout: 5)
  two_an_hour = Limit.new(algorithm: :ALGORITHM_FIXED_WINDOW, limit: 2, period_ms: 3_600_000)
  3.times do
    answer = limits.check(CheckRequest.new(rules: [Rule.new(limit: two_an_hour, key: 'alice')]))
    allowed = answer.outcome == :CHECK_OUTCOME_ALLOWED
    puts allowed ? "limit: go on, #{answer.rules[0].remaining} left" : 'limit: too often'
  end
end

# Prints an error. Applied NO: nothing was changed; MAYBE, or no such metadata: send the same call again, with the same id.
def fail_at(server)
  stock = StockService::Stub.new(server, :this_channel_is_insecure, timeout: 5)
  stock.deduct(DeductRequest.new(order_id: 'order-2', lines: [Line.new(sku: 'phone')]))
rescue GRPC::BadStatus => e
  details = e.to_rpc_status ? e.to_rpc_status.details : []
  bad = details.select { |any| any.is(Google::Rpc::BadRequest) }.map { |any| any.unpack(Google::Rpc::BadRequest) }
  fields = bad.flat_map { |request| request.field_violations.map(&:field) }
  code = GRPC::Core::StatusCodes.constants.find { |name| GRPC::Core::StatusCodes.const_get(name) == e.code }
  puts "error: #{code}, applied #{e.metadata['lockstock-applied'] || 'MAYBE'}, #{fields.join(', ')}"
end

[method(:lock), method(:buy), method(:limit), method(:fail_at)].each { |step| step.call(ARGV[0]) }
