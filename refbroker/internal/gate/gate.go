// Package gate lets a test hold or kill the broker at named points of the
// steps of STOPPING. Without --test-hooks every gate is open and costs a nil
// check.
package gate

import "context"

// A Gate is passed by the mirror's state machine before and after each step.
// The implementation with hooks is in this package too; see Hooks.
type Gate interface {
	// Pass reports arrival at point ("before:settled", "after:settled", …) of
	// one partition ("topic-0") and returns when it may go on. It returns the
	// cause of ctx when that ends first. An armed crash ends the process here.
	Pass(ctx context.Context, point, partition string) error
}

// Open is the gate of a broker without test hooks.
type Open struct{}

// Pass returns at once.
func (Open) Pass(context.Context, string, string) error { return nil }
