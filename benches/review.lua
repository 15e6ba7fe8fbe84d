-- For wrk: posts a file again and again, and writes what came of it as one line that benches/run.sh reads.

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  wrk.body = file:read("*a")
  file:close()
end

function done(summary, latency)
  local errors = 0
  for _, count in pairs(summary.errors) do
    errors = errors + count
  end
  io.write(string.format(
    "load: %.1f requests/s, p50 %.3f ms, p99 %.3f ms, %d requests, %d errors\n",
    summary.requests / summary.duration * 1e6,
    latency:percentile(50) / 1000,
    latency:percentile(99) / 1000,
    summary.requests,
    errors
  ))
end
