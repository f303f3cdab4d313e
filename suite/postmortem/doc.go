// Package postmortem judges segment folders that were copied from brokers after
// a failover: raw logs of one side or of several, without a history and without
// any mark of who wrote what. It tells from the logs themselves, their producer
// ids and epochs and their barriers where logs part and what went wrong, and how
// sure that is.
//
// It streams: what it holds in memory does not grow with the logs. As the rest
// of the judge it shares no code with a broker (design, "The house").
package postmortem
