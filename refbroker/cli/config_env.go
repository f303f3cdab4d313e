package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// notInEnvironment are the flags that belong to one start of a process.
var notInEnvironment = []string{"help", "ready-fd", "lifeline-fd"}

// variable is the environment variable of a flag: REFBROKER_NODE_ID of node-id.
func variable(flag string) string {
	return "REFBROKER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment gives flags the values of their variables. The command line goes
// before them, and they go before a file: a flag that has got its value here counts
// as given. Flags that may be repeated take several values with space between.
func fromEnvironment(getenv func(string) string, flags *pflag.FlagSet) (err error) {
	if getenv == nil {
		return nil
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		name := variable(flag.Name)
		value := getenv(name)
		if err != nil || value == "" || flag.Changed || slices.Contains(notInEnvironment, flag.Name) {
			return
		}
		values := []string{value}
		if _, repeatable := flag.Value.(pflag.SliceValue); repeatable {
			values = strings.Fields(value)
		}
		for _, v := range values {
			if e := flag.Value.Set(v); e != nil {
				err = fmt.Errorf("%s: value %q: %w", name, v, e)
				return
			}
		}
		flag.Changed = true
	})
	return err
}
