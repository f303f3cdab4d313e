package metrics

func requestMetrics() []metric {
	return []metric{
		counter("refbroker_requests_total", "Requests that were answered, those that want no answer included.", "api"),
		counter("refbroker_requests_failed_total", "Requests that ended their connection instead of being answered.", "api"),
		histogram("refbroker_request_seconds", "From the last byte of a request read to the last byte of its response written. Long polls of Fetch count in full.", "api"),
		counter("refbroker_network_in_bytes_total", "Bytes of requests, those between nodes included."),
		counter("refbroker_network_out_bytes_total", "Bytes of responses."),
		gauge("refbroker_connections", "Open connections on all listeners."),
		counter("refbroker_connections_accepted_total", "Connections that were served."),
		counter("refbroker_connections_refused_total", "Connections that were closed at once, there being too many, or too many from their address."),
		counter("refbroker_requests_malformed_total", "Connections that were closed for a request that could not be read or is not served."),
		counter("refbroker_clients_slow_total", "Connections that were closed for a client that stopped within a request, or took no response."),
		gauge("refbroker_requests_queued_bytes", "Memory held by requests in flight, beyond the first 16 KiB of each."),
	}
}

func (p Parts) requests(s *sink) {
	stats := p.Server.Stats()
	for _, a := range stats.APIs() {
		s.set("refbroker_requests_failed_total", float64(a.Failed.Load()), a.Name)
		count, sum, buckets := a.Latency()
		s.set("refbroker_requests_total", float64(count), a.Name)
		s.histogram("refbroker_request_seconds", count, sum, buckets, a.Name)
	}
	s.set("refbroker_network_in_bytes_total", float64(stats.In.Load()))
	s.set("refbroker_network_out_bytes_total", float64(stats.Out.Load()))
	open, queued := p.Server.Connections()
	s.set("refbroker_connections", float64(open))
	s.set("refbroker_requests_queued_bytes", float64(queued))
	s.set("refbroker_connections_accepted_total", float64(stats.Accepted.Load()))
	s.set("refbroker_connections_refused_total", float64(stats.Refused.Load()))
	s.set("refbroker_requests_malformed_total", float64(stats.Malformed.Load()))
	s.set("refbroker_clients_slow_total", float64(stats.Slow.Load()))
}
